#!/bin/bash
# The jar with the vendor's command is not among ours. A broker opens its listener as the last step of its start.
server=$2
exec 3<> "/dev/tcp/${server%:*}/${server#*:}"
