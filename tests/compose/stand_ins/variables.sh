# `properties PREFIX` prints what variables with that prefix say, as a Java properties file: KAFKA_NODE_ID=1 is node.id=1.
properties() {
    env | sed -n "s/^$1//p" | while IFS= read -r line; do
        printf '%s=%s\n' "$(printf %s "${line%%=*}" | tr 'A-Z_' 'a-z.')" "${line#*=}"
    done
}
