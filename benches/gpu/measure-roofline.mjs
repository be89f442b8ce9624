// Prints what the device of Dawn can do at most, as JSON, or why it is refused.
import { openDawn } from './dawn.mjs';
import { roofline } from './roofline.mjs';

const { forMs, isSmall, allowSoftware } = JSON.parse(process.argv[2]);
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);
const { name, isSoftware, ...opened } = await openDawn();
if (isSoftware && !allowSoftware) {
  say({ refused: `${name} computes in software: it is no GPU. --allow-software tries everything there in small sizes, and its times mean nothing` });
} else say({ adapter: name, isSoftware, most: await roofline(opened, { forMs, isSmall }) });
process.stdout.write('', () => process.kill(process.pid, 'SIGKILL'));
