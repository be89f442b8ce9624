import js from '@eslint/js';
import globals from 'globals';

export default [
  { ignores: ['node_modules/', 'native/', 'target/', 'dist/', '**/*.ts'] },
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2024, globals: globals.node },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      eqeqeq: 'error',
      'no-shadow-restricted-names': 'error',
      'no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
      // A promise that nobody waits for hides its failure.
      'no-promise-executor-return': 'error',
      'no-var': 'error',
      'prefer-const': 'error',
    },
  },
  { files: ['**/*.js'], languageOptions: { sourceType: 'commonjs' } },
  { files: ['**/*.mjs'], languageOptions: { sourceType: 'module' } },
  // What a browser runs.
  { files: ['packages/serve/lib/page/files/*.js'], languageOptions: { sourceType: 'module', globals: globals.browser } },
  {
    // A function has one idea. A suite of tests is one call.
    ignores: ['__tests__/**'],
    rules: {
      complexity: ['error', 15],
      'max-lines-per-function': ['error', { max: 60, skipBlankLines: true, skipComments: true }],
    },
  },
  { files: ['__tests__/**/*.js'], languageOptions: { globals: globals.jest } },
];
