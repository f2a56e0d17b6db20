# The settings of the variables; storage formatted on first use; then the broker.
set -eu
. /variables.sh
properties KAFKA_ > /opt/kafka/config/server.properties
java -cp '/opt/kafka/libs/*' kafka.tools.StorageTool format --ignore-formatted \
    -t 5L6g3nShT-eMCtK--X86sw -c /opt/kafka/config/server.properties
exec java -Xmx512m -cp '/opt/kafka/libs/*' kafka.Kafka /opt/kafka/config/server.properties
