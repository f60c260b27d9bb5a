#!/bin/sh
# On a balancer's machine, beside bird.conf: announces its addresses while the balancer answers. It fails, too, once the
# balancer was told to end (SIGTERM): that serves on for its `stop_delay`. Have a service manager keep it running.
set -u
strowger=/usr/local/bin/strowger
admin=127.0.0.1:8080
said=
while :; do
	if timeout 1 "$strowger" ctl status --admin "$admin" >/dev/null 2>&1; then now=enable; else now=disable; fi
	# Said once; said again if bird was not there.
	[ "$now" = "$said" ] || { birdc "$now" strowger >/dev/null && said=$now; }
	sleep 0.2
done
