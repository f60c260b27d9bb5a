// A bad network between two sides that speak UDP: of a hundred datagrams, each way, five are lost, five come twice, and five
// come after the next one.
//
//   lossy SEED FRONT_IP TARGET_IP [FRONT_IP TARGET_IP]...
//
// Who sends to port 5060 of a front reaches that port of its target, from a port of the front's address that is his alone, as
// behind NAT. It runs until SIGTERM and says then what it has done.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT = 5060, FRONTS = 16, SENDERS = 64, SIZE = 8192, TURN = 64, BUFFER = 4 << 20 };

struct held {
    char bytes[SIZE];
    ssize_t len;
};

// One sender at one front: his address, the socket towards the target, and what is held back each way.
struct sender {
    struct sockaddr_in at;
    int front, back;
    struct held to_target, to_sender;
};

static int fronts[FRONTS], front_count, sender_count, queue;
static struct sockaddr_in owns[FRONTS], targets[FRONTS];
static struct sender senders[SENDERS];
static uint64_t seed, passed, lost, doubled, late;
static volatile sig_atomic_t over;

static void stop(int signal) {
    (void)signal;
    over = 1;
}

static void fail(const char *what) {
    perror(what);
    exit(2);
}

static struct sockaddr_in place(const char *ip, unsigned short port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, ip, &at.sin_addr) != 1) {
        fprintf(stderr, "lossy: not an address: %s\n", ip);
        exit(2);
    }
    return at;
}

// What `events` of a socket name: a front, or a sender after all fronts.
static int opened(struct sockaddr_in at, uint32_t name) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), size = BUFFER;
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = name};
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at)) fail("lossy: bind");
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    if (epoll_ctl(queue, EPOLL_CTL_ADD, fd, &event)) fail("lossy: epoll");
    return fd;
}

static struct sender *known(int front, struct sockaddr_in at) {
    for (int i = 0; i < sender_count; i++)
        if (senders[i].front == front && senders[i].at.sin_port == at.sin_port && senders[i].at.sin_addr.s_addr == at.sin_addr.s_addr)
            return &senders[i];
    if (sender_count == SENDERS) {
        fprintf(stderr, "lossy: more than %d senders\n", SENDERS);
        exit(2);
    }
    struct sender *new = &senders[sender_count];
    struct sockaddr_in own = owns[front];
    own.sin_port = 0;
    new->at = at;
    new->front = front;
    new->back = opened(own, (uint32_t)(FRONTS + sender_count++));
    if (connect(new->back, (struct sockaddr *)&targets[front], sizeof targets[front])) fail("lossy: connect");
    return new;
}

// Nobody may be there for a moment: what cannot be sent is lost.
static void out(struct sender *way, int to_target, const char *bytes, ssize_t len) {
    if (to_target)
        (void)!send(way->back, bytes, (size_t)len, 0);
    else
        (void)!sendto(fronts[way->front], bytes, (size_t)len, 0, (struct sockaddr *)&way->at, sizeof way->at);
}

static void pass(struct sender *way, int to_target, const char *bytes, ssize_t len) {
    struct held *held = to_target ? &way->to_target : &way->to_sender;
    // xorshift64
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    unsigned chance = (unsigned)(seed % 100);
    if (chance < 5) {
        lost++;
    } else if (chance < 10) {
        doubled++;
        out(way, to_target, bytes, len);
        out(way, to_target, bytes, len);
    } else if (chance < 15 && !held->len) {
        late++;
        memcpy(held->bytes, bytes, (size_t)len);
        held->len = len;
        return;
    } else {
        passed++;
        out(way, to_target, bytes, len);
    }
    if (held->len) out(way, to_target, held->bytes, held->len);
    held->len = 0;
}

static void serve(uint32_t name) {
    static char bytes[SIZE];
    for (int i = 0; i < TURN; i++) {
        struct sockaddr_in from;
        socklen_t size = sizeof from;
        int is_front = name < FRONTS, fd = is_front ? fronts[name] : senders[name - FRONTS].back;
        // An error is what the network said of an earlier datagram.
        ssize_t len = recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &size);
        if (len <= 0) return;
        pass(is_front ? known((int)name, from) : &senders[name - FRONTS], is_front, bytes, len);
    }
}

int main(int argc, char **argv) {
    if (argc < 4 || argc % 2 || argc > 2 + 2 * FRONTS) {
        fprintf(stderr, "usage: lossy SEED FRONT_IP TARGET_IP [FRONT_IP TARGET_IP]...\n");
        return 2;
    }
    // Whatever the number is: not zero, from which nothing random follows.
    seed = strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15u | 1;
    queue = epoll_create1(0);
    struct sigaction ended = {.sa_handler = stop};
    sigaction(SIGTERM, &ended, NULL);
    for (int at = 2; at + 1 < argc; at += 2, front_count++) {
        owns[front_count] = place(argv[at], PORT);
        targets[front_count] = place(argv[at + 1], PORT);
        fronts[front_count] = opened(owns[front_count], (uint32_t)front_count);
    }
    printf("ready\n");
    fflush(stdout);
    while (!over) {
        struct epoll_event events[64];
        int count = epoll_wait(queue, events, 64, 1000);
        for (int i = 0; i < count; i++) serve(events[i].data.u32);
    }
    printf("passed %llu lost %llu doubled %llu late %llu\n", (unsigned long long)passed, (unsigned long long)lost,
           (unsigned long long)doubled, (unsigned long long)late);
    return 0;
}
