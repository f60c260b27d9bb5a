"""`strowger load` and SIPp call each other with SIPp's own scenario files."""
import os
import shutil
import subprocess
import tempfile

from harness import load, net, sipp
from scenarios import finish, must, scenario

# Who calls and who answers, as SIPp names them.
PAIRS = (('uac', 'uas'), ('regexp', 'uas'), ('branchc', 'branchs'))
# What this program has not, and the element that it names then.
REFUSED = (('uac_pcap', '<exec>'), ('3pcc-C-A', '<sendCmd>'), ('3pcc-C-B', '<recvCmd>'))


def file_of(name, folder):
    """SIPp's own scenario of this name, in a file."""
    path = os.path.join(folder, name + '.xml')
    text = subprocess.run(['sipp', '-sd', name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    must(b'<scenario' in text, 'sipp -sd %s printed no scenario' % name)
    with open(path, 'wb') as f:
        f.write(text)
    return path


def refused(run, path, element):
    """The file is refused before the first message; the answer names file, line and element."""
    done = subprocess.run([run.bin, 'load', '-sf', path, net.fresh_ip()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=30)
    must(done.returncode == 2 and element in done.stdout and os.path.basename(path) + ':' in done.stdout,
         path, 'was not refused:', done.returncode, done.stdout)


@scenario
def load_and_sipp(run):
    """SIPp's bundled files, unchanged: each side played by `strowger load`, the other by SIPp."""
    total = run.size(500, 50)
    folder = tempfile.mkdtemp(prefix='strowger-files-')
    try:
        for caller, callee in PAIRS:
            calls, answers = file_of(caller, folder), file_of(callee, folder)
            theirs = sipp.Sipp(answers)
            ours = load.Load(run.bin, calls, (theirs.ip, 5060), ip=net.fresh_ip(), port=5070, rate=50, calls=total)
            try:
                code, sums = ours.wait(60), ours.totals()
                must(code == 0 and sums['ok'] == total, caller, 'by strowger load:', code, sums, ours.errors())
            finally:
                ours.stop()
                theirs.stop()
            ours = load.Load(run.bin, answers)
            theirs = sipp.Sipp(calls, (ours.ip, 5060), port=5070, rate=50, calls=total)
            try:
                finish(theirs, 60, total)
            finally:
                theirs.stop()
                ours.stop()
            found = {m['key']: m['value'] for m in ours.report()['metrics']}
            must(found.get('callee.success') == 100, callee, 'by strowger load:', found)
        for name, element in REFUSED:
            refused(run, file_of(name, folder), element)
        return '%d pairs both ways, %d calls each; %d files refused' % (len(PAIRS), total, len(REFUSED))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
