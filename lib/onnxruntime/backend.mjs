import entries from './entries.js';

export const { backend, common, listSupportedBackends } = entries.backend();
