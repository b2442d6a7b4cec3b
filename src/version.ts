import { createRequire } from 'node:module';

/** The version of Sluice, from its package. */
export const version: string = createRequire(import.meta.url)('#package.json').version;
