// npm run test:full: npm test with functions tried on some millions of numbers instead of thousands, which takes minutes more.
process.env.WEBNN_SWEEP = 'all';
await import('./test.mjs');
