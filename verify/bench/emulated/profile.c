// A plugin of QEMU (7.2 and later) that counts what each function of the guest executes, kernel included, for each
// process apart. profile.py builds it, starts the machine with it, and reads what it writes.
//
//   -plugin profile.so,switch=ADDRESS,toggle=ADDRESS,out=PATH
//
// `switch` is where the kernel changes from one task to another, `toggle` a system call that begins and ends the
// window. A task is known by the part of the address space that its program is in; what the kernel does for a task
// between the change to it and its next instruction outside the kernel is noted, and counted when that is known.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What is used of qemu-plugin.h, which is not in every package of QEMU.
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
__attribute__((visibility("default"))) int qemu_plugin_version = 1;
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int, void *);

enum { PROGRAMS = 64, PENDING = 1 << 20 };

struct block {
    uint64_t address;
    uint32_t length;
    bool program;
    uint32_t count[PROGRAMS];
    struct block *next;
};

static struct block *blocks, *pending[PENDING];
static size_t waiting;
static uint64_t programs[PROGRAMS], switching, toggling;
static int known = 1, current;
static bool counting, unknown;
static const char *out;

// A place-independent program is somewhere between these addresses, nearly always in 4 GB of its own; libraries are
// elsewhere.
static bool is_program(uint64_t address) { return address >> 40 == 0x55 || address >> 40 == 0x56; }

static void settle(int program) {
    for (size_t i = 0; i < waiting; i++) pending[i]->count[program]++;
    waiting = 0;
    unknown = false;
}

static void executed(unsigned cpu, void *data) {
    struct block *block = data;
    (void)cpu;
    if (!counting) return;
    if (block->address == switching) {
        settle(unknown ? 0 : current);
        block->count[current]++;
        unknown = true;
        return;
    }
    if (block->program && (unknown || programs[current] != block->address >> 32)) {
        int at = 1;
        while (at < known && programs[at] != block->address >> 32) at++;
        if (at == known && known < PROGRAMS) programs[known++] = block->address >> 32;
        current = at < known ? at : 0;
        settle(current);
    }
    if (unknown && waiting < PENDING) pending[waiting++] = block;
    else block->count[current]++;
}

static void toggled(unsigned cpu, void *data) {
    (void)cpu, (void)data;
    counting = !counting;
    if (counting) return;
    FILE *file = fopen(out, "w");
    if (!file) return;
    for (struct block *block = blocks; block; block = block->next)
        for (int i = 0; i < known; i++)
            if (block->count[i]) fprintf(file, "%lx %lx %u %u\n", programs[i], block->address, block->length, block->count[i]);
    fclose(file);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    struct block *block = calloc(1, sizeof *block);
    (void)id;
    if (!block) return;
    block->address = qemu_plugin_tb_vaddr(tb);
    block->length = (uint32_t)qemu_plugin_tb_n_insns(tb);
    block->program = is_program(block->address);
    block->next = blocks;
    blocks = block;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, 0, block);
    if (block->address == toggling) qemu_plugin_register_vcpu_tb_exec_cb(tb, toggled, 0, NULL);
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        if (!value++) continue;
        if (!strncmp(argv[i], "switch=", 7)) switching = strtoull(value, NULL, 16);
        if (!strncmp(argv[i], "toggle=", 7)) toggling = strtoull(value, NULL, 16);
        if (!strncmp(argv[i], "out=", 4)) out = strdup(value);
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return switching && toggling && out ? 0 : 1;
}
