// The floor under every proxy on kernel sockets: what comes from the callee's address goes to the
// caller's and the other way round, unread, in batches of recvmmsg and sendmmsg.
//
//   relay OWN_IP OWN_PORT CALLER_IP CALLER_PORT CALLEE_IP CALLEE_PORT
//
// It runs until it is told to end. A batch of one uses the plain calls, which are then cheaper.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { BATCH = 64, SIZE = 2048 };

static char bytes[BATCH][SIZE];
static struct iovec pieces[BATCH];
static struct sockaddr_in senders[BATCH];
static struct mmsghdr batch[BATCH];

static struct sockaddr_in place(const char *ip, const char *port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port))};
    if (inet_pton(AF_INET, ip, &at.sin_addr) != 1) {
        fprintf(stderr, "relay: not an address: %s\n", ip);
        exit(2);
    }
    return at;
}

static void prepare(int i) {
    pieces[i] = (struct iovec){bytes[i], SIZE};
    batch[i].msg_hdr = (struct msghdr){
        .msg_name = &senders[i], .msg_namelen = sizeof senders[i], .msg_iov = &pieces[i], .msg_iovlen = 1};
}

int main(int argc, char **argv) {
    if (argc != 7) {
        fprintf(stderr, "usage: relay OWN_IP OWN_PORT CALLER_IP CALLER_PORT CALLEE_IP CALLEE_PORT\n");
        return 2;
    }
    struct sockaddr_in own = place(argv[1], argv[2]);
    struct sockaddr_in caller = place(argv[3], argv[4]), callee = place(argv[5], argv[6]);
    int sock = socket(AF_INET, SOCK_DGRAM, 0), room = 4 << 20;
    setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (sock < 0 || bind(sock, (struct sockaddr *)&own, sizeof own)) {
        perror("relay: bind");
        return 1;
    }
    for (int i = 0; i < BATCH; i++) prepare(i);
    fprintf(stderr, "ready\n");
    for (;;) {
        int got = recvmmsg(sock, batch, BATCH, MSG_WAITFORONE, NULL);
        if (got <= 0) continue;
        for (int i = 0; i < got; i++) {
            int from_callee = senders[i].sin_addr.s_addr == callee.sin_addr.s_addr && senders[i].sin_port == callee.sin_port;
            pieces[i].iov_len = batch[i].msg_len;
            batch[i].msg_hdr.msg_name = from_callee ? &caller : &callee;
        }
        if (got == 1) {
            sendmsg(sock, &batch[0].msg_hdr, 0);
        } else {
            for (int sent = 0, n; sent < got; sent += n) {
                n = sendmmsg(sock, batch + sent, (unsigned)(got - sent), 0);
                if (n <= 0) break;
            }
        }
        for (int i = 0; i < got; i++) prepare(i);
    }
}
