// npm run test:arm: the CPU kernels for 64-bit ARM on another machine. It wants what Debian has in gcc-aarch64-linux-gnu,
// libc6-dev-arm64-cross and qemu-user-static, and the target: rustup target add aarch64-unknown-linux-gnu. On an ARM machine
// `npm test` tests them.
import { Tally } from './tally.mjs';
import { testArm } from './test-rust.mjs';

const tally = new Tally();
await testArm(tally);
tally.finish();
