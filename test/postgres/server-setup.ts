import { inject } from 'vitest';

// Fails each file of tests where the server of the tests is not installed, and says so.
if (inject('postgresUrl') === '') await import('../oracles/installed.ts');
