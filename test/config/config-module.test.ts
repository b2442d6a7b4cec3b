import { execFileSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { loadConfigModule } from '../../src/config/config-module.ts';
import { BUILT_IN_SCHEMES } from '../../src/webhooks/schemes/publishers/index.ts';
import { temporaryFolder } from '../temporary.ts';

let folder = '';
beforeEach(async () => {
  folder = temporaryFolder('config');
});

it('refuses a config module that is a pipe, instead of waiting for data', async () => {
  execFileSync('mkfifo', [join(folder, 'own.mjs'), join(folder, 'sluice.config.ts')]);
  await expect(loadConfigModule('own.mjs', folder)).rejects.toThrow('own.mjs is a named pipe, not a file');
  await expect(loadConfigModule(undefined, folder)).rejects.toThrow('sluice.config.ts is a named pipe, not a file');
});

it('refuses a config module that is a folder or a device', async () => {
  await mkdir(join(folder, 'own.mjs'));
  await expect(loadConfigModule('own.mjs', folder)).rejects.toThrow('own.mjs is a folder, not a file');
  await expect(loadConfigModule('/dev/zero', folder)).rejects.toThrow('/dev/zero is a device, not a file');
});

it.each(['.env', 'own.env', 'own.yaml', 'own'])(
  'refuses %s as a config module, and quotes nothing of it',
  async (name) => {
    await writeFile(join(folder, name), 'SLUICE_PORT=3001\nKEY=s3cr3t\n');
    const error = await loadConfigModule(name, folder).catch((reason: unknown) => reason);
    const message = `SLUICE_CONFIG: "${name}" is not a config module; expected a file that ends in .ts, .mts, .js or .mjs`;
    expect(error).toMatchObject({ name: 'SettingsError', message: expect.stringContaining(message) });
    expect(error).not.toMatchObject({ message: expect.stringContaining('s3cr3t') });
  },
);

it.each([
  ['an option that throws when it is read', 'export default { get port() { throw new Error("no port"); } }', 'no port'],
  ['a list that does', 'export default { handlers: [{ get type() { throw new Error("no type"); } }] }', 'no type'],
  [
    'an export that cannot be read',
    'export default new Proxy({}, { ownKeys() { throw new Error("no keys"); } })',
    'no keys',
  ],
  [
    'code that throws what cannot be read',
    'throw new Proxy(new Error(""), { getPrototypeOf() { throw 1; } })',
    'cannot be read',
  ],
])('refuses with one line a config module that has %s', async (_what, code, line) => {
  await writeFile(join(folder, 'own.mjs'), code);
  const error = await loadConfigModule('own.mjs', folder).catch((reason: unknown) => reason);
  expect(error).toMatchObject({ name: 'SettingsError', message: expect.stringMatching(line) });
});

const FULL = {
  name: 'Acme',
  headers: [{ signature: 'X-Signature' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  signs: [{ part: 'body' }],
};
const SHORT = {
  name: 'Acme',
  headerName: 'X',
  algorithm: 'sha256',
  encoding: 'hexLower',
  signedPayloadStrategy: 'RawBody',
};
const loadSpec = (spec: object) => loadSpecs([spec]);
const loadSpecs = async (specs: readonly object[]) => {
  await writeFile(join(folder, 'own.mjs'), `export default { signatureSpecs: ${JSON.stringify(specs)} }`);
  return await loadConfigModule('own.mjs', folder);
};

it.each<[object, string]>([
  [{ ...SHORT, headerName: undefined }, 'headerName is missing; a string is accepted'],
  [{ ...SHORT, headerName: null }, 'headerName is null; a string is accepted'],
  [{ ...SHORT, prefix: 7 }, 'prefix is a number; a string is accepted'],
  [{ ...SHORT, signedPayloadStrategy: undefined }, 'signedPayloadStrategy is missing; a string is accepted'],
  [{ ...FULL, signs: undefined }, 'signs is missing; an array is accepted'],
  [{ ...FULL, signs: null }, 'signs is null; an array is accepted'],
  [{ ...FULL, signs: [null] }, 'signs[0] is null; a string or an object is accepted'],
  [{ ...FULL, signs: [{ part: 'field' }] }, 'signs[0].field is missing'],
  [{ ...FULL, signs: [{ part: 'header' }] }, 'signs[0].name is missing'],
  [{ ...FULL, headers: undefined }, 'headers is missing; an array is accepted'],
  [{ ...FULL, headers: ['X-Signature'] }, 'headers[0] is a string; an object is accepted'],
  [{ ...FULL, headers: [{}] }, 'headers[0].signature is missing; a string is accepted'],
  [{ ...FULL, aliases: 'Other' }, 'aliases is a string; an array is accepted'],
  [{ ...FULL, alternatives: [null] }, 'alternatives[0] is null; an object is accepted'],
  [{ ...FULL, isPrefixOptional: 'false' }, 'isPrefixOptional is a string; true or false is accepted'],
  [{ ...FULL, multiValue: {} }, 'multiValue.delimiter is missing; a string is accepted'],
  [{ ...FULL, timestamp: null }, 'timestamp is null; an object is accepted'],
  [{ ...FULL, timestamp: { in: 'body', unit: 'seconds' } }, 'timestamp.field is missing; an object is accepted'],
  [{ ...FULL, timestamp: { in: 'header', unit: 'hours' } }, 'timestamp.unit is not one of seconds, milliseconds'],
  [{ ...FULL, timestamp: { in: 'query', unit: 'seconds' } }, 'timestamp.in '],
  [{ ...FULL, requestForm: { ...FULL, signs: {} } }, 'requestForm.signs is an object; an array is accepted'],
])('refuses the spec %j with one line that names it and its field', async (spec, line) => {
  const error = await loadSpec(spec).catch((reason: unknown) => reason);
  expect(error).toMatchObject({
    name: 'SettingsError',
    lines: expect.arrayContaining([expect.stringContaining(`own.mjs: signatureSpecs[0] "Acme": ${line}`)]),
  });
});

it('accepts every built-in scheme as a spec, and the two forms', async () => {
  const specs = [...BUILT_IN_SCHEMES, FULL, SHORT];
  expect((await loadSpecs(specs)).extensions.signatureSpecs).toHaveLength(specs.length);
});

it.each([
  ['an await that never ends', 'await new Promise(() => {}); export default {};'],
  ['a promise as its export that never ends', 'export default new Promise(() => {});'],
  ['an export that takes a waiter and never calls it', 'export default { then() {} };'],
])('refuses a config module with %s, names it and says how long it waited', async (_what, code) => {
  await writeFile(join(folder, 'own.mjs'), code);
  const error = await loadConfigModule('own.mjs', folder, 1).catch((reason: unknown) => reason);
  expect(error).toMatchObject({
    name: 'SettingsError',
    message: expect.stringMatching(/own\.mjs does not load: it has not finished after 0\.001 s; look for an await/),
  });
});

it('refuses two config modules, of which one would not count', async () => {
  await writeFile(join(folder, 'sluice.config.mjs'), 'export default { enforcementMode: "Enforce" };');
  expect((await loadConfigModule(undefined, folder)).options).toEqual({ enforcementMode: 'Enforce' });
  await writeFile(join(folder, 'sluice.config.js'), 'export default { enforcementMode: "Off" };');
  await expect(loadConfigModule(undefined, folder)).rejects.toThrow('only one may be there; SLUICE_CONFIG names one');
  expect((await loadConfigModule('sluice.config.mjs', folder)).options).toEqual({ enforcementMode: 'Enforce' });
});
