#!/bin/sh
# Registers PHONE@example.com with PASSWORD at SERVER and answers calls; calls DIAL once a minute, if it is set.
set -eu
folder=/tmp/phone
mkdir -p "$folder"
cat >"$folder/config" <<CONFIG
module_path /usr/lib/baresip/modules
module g711.so
module aubridge.so
module_app account.so
module_app menu.so
audio_source aubridge,nil
audio_player aubridge,nil
CONFIG
echo "<sip:$PHONE@example.com>;auth_pass=$PASSWORD;outbound=\"sip:$SERVER\";answermode=auto" >"$folder/accounts"
if [ -z "${DIAL:-}" ]; then
    exec baresip -f "$folder"
fi
sleep 5
while :; do
    # baresip ends after 20 s, which ends its call.
    baresip -f "$folder" -e "/dial $DIAL" -t 20 || true
    sleep 40
done
