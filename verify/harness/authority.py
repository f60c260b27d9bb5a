"""A private certificate authority, made by the `openssl` program, for the length of a run."""
import os
import subprocess


class Authority:
    """An authority with its files in a folder of the caller's."""

    def __init__(self, folder, name='Interop Authority'):
        self.folder, self.issued = folder, 0
        os.makedirs(folder, exist_ok=True)
        self.roots, self.key = self.path('roots.pem'), self.path('roots.key')
        openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '30',
                '-subj', '/CN=' + name, '-keyout', self.key, '-out', self.roots,
                '-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'keyUsage=critical,keyCertSign,cRLSign')

    def path(self, name):
        return os.path.join(self.folder, name)

    def issue(self, name, names=(), days=10):
        """A chain and its key, for these DNS names and addresses (`IP:127.0.0.1`); by default for the name alone."""
        self.issued += 1
        stem = self.path('%s-%d' % (name, self.issued))
        chain, key, request, extensions = (stem + end for end in ('.pem', '.key', '.csr', '.ext'))
        listed = ','.join(n if n.startswith('IP:') else 'DNS:' + n for n in names or [name])
        with open(extensions, 'w') as f:
            f.write('subjectAltName=%s\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n'
                    'basicConstraints=critical,CA:FALSE\n' % listed)
        openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=' + name,
                '-keyout', key, '-out', request)
        openssl('x509', '-req', '-in', request, '-CA', self.roots, '-CAkey', self.key, '-CAcreateserial', '-days', str(days),
                '-extfile', extensions, '-out', chain)
        return chain, key


def openssl(*words):
    done = subprocess.run(['openssl', *words], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise AssertionError('openssl %s: %s' % (words[0], done.stderr.strip()[-500:]))
