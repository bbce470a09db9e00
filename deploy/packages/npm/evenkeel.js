#!/usr/bin/env node
// Runs the program of the package for this machine, which npm has installed beside
// this one.
"use strict";
const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const name = `evenkeel-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/evenkeel`);
} catch {
  console.error(`error: there is no package ${name}; see docs/install.md for other ways to install evenkeel`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`error: ${program}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
