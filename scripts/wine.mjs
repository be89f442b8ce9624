// Wine, which runs programs of Windows.
import { existsSync } from 'node:fs';

const places = ['/usr/lib/wine/wine64', '/usr/bin/wine64', '/usr/bin/wine'];

/** The program, if it is installed. */
export const findWine = () => places.find((file) => existsSync(file));
