#!/usr/bin/env bash
# VS Code's workbench for the tests, from npm alone: code-server of the last version that Node 20 runs, into
# build/code-server, once. Its own install fetches binaries from elsewhere: ripgrep, for which Debian's is linked, and
# kerberos, which nobody needs here.
set -euo pipefail
version=4.100.3
cd "$(dirname "$0")/../../.."
[ ! -e build/code-server/ready-$version ] || exit 0
rm -rf build/code-server
mkdir -p build/code-server
cd build/code-server
# Where the headers of node are installed, nothing is to be fetched for what is compiled.
[ ! -e /usr/include/node/node_api.h ] || export npm_config_nodedir=/usr
{
  npm init -y
  npm install code-server@$version --ignore-scripts --no-audit --no-fund
  cd node_modules/code-server/lib/vscode
  npm install --omit=dev --ignore-scripts --no-audit --no-fund
  (cd extensions && npm install --omit=dev --ignore-scripts --no-audit --no-fund)
  npm rebuild --foreground-scripts @vscode/spdlog native-watchdog
  npm rebuild --foreground-scripts node-pty || [ -e node_modules/node-pty/build/Release/pty.node ] # its cleaning up fails
  mkdir -p node_modules/@vscode/ripgrep/bin
  ln -sf "$(command -v rg)" node_modules/@vscode/ripgrep/bin/rg
  ln -sfn node_modules node_modules.asar
  cd ../../../..
  npm_config_build_from_source=true npm rebuild --foreground-scripts argon2
} >install.log 2>&1 || { tail -n 30 install.log >&2; exit 1; }
touch ready-$version
