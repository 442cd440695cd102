#!/bin/sh
# Certificates and keys into keys/: sh keys.sh CLIENTS [NAME...]
#   CLIENTS  how many clients get a key (client-0, client-1, ...)
#   NAME     hosts and addresses by which clients reach the SuperLink, beside 127.0.0.1 and localhost
# What is there already is kept, so more clients can be added later; remove keys/server.pem for other names.
set -eu
umask 077
cd "$(dirname "$0")"
clients=${1:?usage: sh keys.sh CLIENTS [NAME...]}
shift
mkdir -p keys
cd keys

names="DNS:localhost,IP:127.0.0.1"
for name in "$@"; do
  case $name in
    *:*) names="$names,IP:$name" ;;
    *[!0-9.]*) names="$names,DNS:$name" ;;
    *) names="$names,IP:$name" ;;
  esac
done

if [ ! -f ca.pem ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -sha384 -days 1825 \
    -subj "/CN=fair-app CA" -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign" \
    -keyout ca.key -out ca.pem 2>/dev/null
fi
if [ ! -f server.pem ]; then
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -subj "/CN=superlink" \
    -keyout server.key -out server.csr 2>/dev/null
  printf 'subjectAltName=%s\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n' "$names" > server.ext
  openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 365 -sha384 \
    -extfile server.ext -out server.pem 2>/dev/null
  rm -f server.csr server.ext
fi
k=0
while [ "$k" -lt "$clients" ]; do
  [ -f "client-$k" ] || ssh-keygen -q -t ecdsa -b 384 -N "" -C "client-$k" -f "client-$k"
  k=$((k + 1))
done
chmod 644 ca.pem server.pem ./*.pub
