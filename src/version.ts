import { createRequire } from 'node:module';

const manifest: { name: string; version: string } = createRequire(import.meta.url)('#package.json');

/** The version of Sluice, from its package. */
export const version = manifest.version;

/** What its package is installed and imported by. */
export const packageName = manifest.name;
