// npm publish in a clone: what is published is in dist/.
import { stop } from '../stop.mjs';

stop('a clone is not published: npm run package, then npm publish dist/*.tgz');
