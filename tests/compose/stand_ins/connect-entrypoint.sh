# The settings of the variables, and those that the vendor's image brings for a single worker.
set -eu
. /variables.sh
file=/kafka/config/connect-distributed.properties
{
    printf '%s\n' "bootstrap.servers=$BOOTSTRAP_SERVERS" "group.id=$GROUP_ID" plugin.path=/kafka/connect
    for kind in config offset status; do
        name=$(printf %s "$kind" | tr a-z A-Z)_STORAGE_TOPIC
        eval "printf '%s\n' \"$kind.storage.topic=\$$name\""
        echo "$kind.storage.replication.factor=1"
    done
    properties CONNECT_
} > "$file"
exec java -Xmx768m -cp '/kafka/libs/*' org.apache.kafka.connect.cli.ConnectDistributed "$file"
