#!/usr/bin/env bash
# Runs the end-to-end tests as an ordinary user, on a copy of the built tree in that user's home.
# The tests get the PATH and the umask of the user's login. Needs root, and makes the user if missing.
#
#   test-as-user.sh USER [PYTEST-OPTION...]
set -euo pipefail
user=${1:?usage: test-as-user.sh USER [PYTEST-OPTION...]}
shift
root=$(cd "$(dirname "$0")/.." && pwd)
dist=$root/target/dist

if [ "$(id -u)" != 0 ]; then
    echo "test-as-user: only root can become $user; as an ordinary user run:  make test" >&2
    exit 2
fi
if [ ! -x "$dist/bin/softband" ]; then
    echo "test-as-user: $dist is not there: run \`make build\`" >&2
    exit 2
fi
id "$user" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash "$user"
if [ "$(id -u "$user")" = 0 ]; then
    echo "test-as-user: $user is root; name an ordinary user" >&2
    exit 2
fi
home=$(getent passwd "$user" | cut -d: -f6)
copy=$home/.softband-tests

# The sources that git knows, its repository, and the built tree. The user may be unable to enter
# this folder, and the tests leave files.
rm -rf "${copy:?}"
mkdir -p "$copy/target"
cd "$root"
git -c safe.directory="$root" ls-files -z | tar --create --null --files-from=- | tar --extract --no-same-owner -C "$copy"
cp -r .git "$copy/.git"
cp -r "$dist" "$copy/target/dist"
chown -R "$user": "$copy"

# A login shell has a new environment. Only the settings of pip pass, for the first line.
settings=()
for name in ${!PIP_@} SSL_CERT_FILE REQUESTS_CA_BUNDLE http_proxy https_proxy no_proxy; do
    [ -z "${!name:-}" ] || settings+=("$name=${!name}")
done
install="python3 -m venv target/venv && env $(printf '%q ' "${settings[@]}") target/venv/bin/pip install --quiet --disable-pip-version-check -e 'lab[dev]'"
if [ $# -gt 0 ]; then
    tests="target/venv/bin/pytest -q $(printf '%q ' "$@")"
else
    tests="target/venv/bin/pytest -q -n 2 --dist loadfile -m 'not alone' tests/e2e && target/venv/bin/pytest -q -m alone tests/e2e"
fi
echo "test-as-user: as $(runuser -l "$user" -c 'echo "$(id -un), PATH $PATH, umask $(umask)"')"
exec runuser -l "$user" -c "cd .softband-tests && $install && $tests"
