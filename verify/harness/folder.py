"""Folders for what a run writes, gone when the program ends. STROWGER_KEEP=1 keeps them, to look at what went wrong."""
import atexit
import os
import shutil
import tempfile


def temporary(prefix):
    path, owner = tempfile.mkdtemp(prefix=prefix), os.getpid()

    def remove():
        # Not by a child that was forked since.
        if os.getpid() == owner and not os.environ.get('STROWGER_KEEP'):
            shutil.rmtree(path, ignore_errors=True)
    atexit.register(remove)
    return path
