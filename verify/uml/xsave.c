/* Lets user-mode Linux 6.1 run on processors whose registers fill more than it knows.
 *
 * It gives the kernel 2,696 bytes when it sets the registers of a process (PTRACE_SETREGSET with NT_X86_XSTATE), as
 * many as AVX-512 and protection keys need. A processor with AMX has 11,008, and the kernel takes all or nothing
 * (EFAULT). What is missing are registers that the guest does not use, so they are added as zeros: their bits in the
 * header say that they are unused.
 *
 * Loaded by LD_PRELOAD. Elsewhere it changes nothing.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MOST = 64 << 10 };

/* The size that the kernel wants; zero: not known yet. User-mode Linux has one thread for its processes. */
static size_t whole;

static void learn(pid_t pid)
{
    static char all[MOST];
    struct iovec iov = { all, sizeof all };
    if (whole == 0 && syscall(SYS_ptrace, PTRACE_GETREGSET, pid, NT_X86_XSTATE, &iov) == 0)
        whole = iov.iov_len;
}

long ptrace(enum __ptrace_request request, ...)
{
    va_list args;
    va_start(args, request);
    pid_t pid = va_arg(args, pid_t);
    void *addr = va_arg(args, void *), *data = va_arg(args, void *);
    va_end(args);
    if (request == PTRACE_SETREGSET && addr == (void *)NT_X86_XSTATE) {
        static char all[MOST];
        struct iovec *given = data;
        learn(pid);
        if (given->iov_len < whole && whole <= sizeof all) {
            struct iovec iov = { all, whole };
            memcpy(all, given->iov_base, given->iov_len);
            return syscall(SYS_ptrace, request, pid, addr, &iov);
        }
    }
    long peeked;
    switch (request) {
    case PTRACE_PEEKTEXT:
    case PTRACE_PEEKDATA:
    case PTRACE_PEEKUSER:
        /* The C library returns the word, the system call stores it. */
        return syscall(SYS_ptrace, request, pid, addr, &peeked) < 0 ? -1 : peeked;
    default:
        return syscall(SYS_ptrace, request, pid, addr, data);
    }
}
