//! Memory and latency of a server beside clients that do harm. Its tests take turns: each measures the machine.

mod hostile;
