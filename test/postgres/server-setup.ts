import { inject } from 'vitest';

// Fails each test file with a clear message if the tests' server is not installed.
if (inject('postgresUrl') === '') await import('../oracles/installed.ts');
