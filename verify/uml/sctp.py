#!/usr/bin/env python3
"""SIP over SCTP with real associations. To be run inside user-mode Linux, where the kernel has SCTP:

    verify/uml/run.sh python3 verify/uml/sctp.py --bin FILE [NAME...]
"""
import socket
import sys
import unittest

LIMIT = 20.0  # seconds that anything may take


def association(address='127.0.0.1'):
    """A one-to-one socket, bound to a free port of this address."""
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP)
    s.settimeout(LIMIT)
    s.bind((address, 0))
    return s


class Kernel(unittest.TestCase):
    """What the tests below rely on."""

    def test_messages_keep_their_boundaries(self):
        listener, client = association(), association()
        listener.listen(1)
        client.connect(listener.getsockname())
        server, _ = listener.accept()
        server.settimeout(LIMIT)
        client.send(b'one')
        client.send(b'two')
        self.assertEqual([server.recv(100), server.recv(100)], [b'one', b'two'])
        for s in (listener, client, server):
            s.close()


def main():
    arguments = sys.argv[1:]
    if '--bin' in arguments:
        at = arguments.index('--bin')
        del arguments[at:at + 2]
    unittest.main(argv=sys.argv[:1] + arguments, verbosity=2)


if __name__ == '__main__':
    main()
