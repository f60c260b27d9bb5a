"""What interop and bench share: servers, SIPp and a raw SIP client, all on loopback."""
