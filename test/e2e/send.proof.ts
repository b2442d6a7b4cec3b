import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { BUILT_IN_SCHEMES } from '../../src/webhooks/schemes/publishers/index.ts';
import { runCli } from './cli.ts';
import { keyOption, useSchemeService } from './scheme-service.ts';

const { workspace, send } = useSchemeService();
const sendSigned = (name: string, ...args: string[]) => send(name, ...keyOption(name), ...args);

// With a certificate, only the publisher can sign.
const SIGNED_HERE = BUILT_IN_SCHEMES.filter(({ certificate }) => certificate === undefined);

it.each(SIGNED_HERE.map(({ name }) => name))(
  'a delivery passes once, an id too, and a wrong key never: %s',
  async (name) => {
    expect((await sendSigned(name, '--repeat', '2')).stdout).toMatch(/^200 .*\n409 .*"nonce_replayed"/);
    expect((await send(name, '--wrong-key')).stdout).toMatch(/^401 .*"signature_mismatch"/);
    const again = await sendSigned(name, '--id', `id-of-${name}`, '--repeat', '2');
    expect(again.stdout).toMatch(/^200 .*\n409 .*"nonce_replayed"/);
  },
);

it.each(SIGNED_HERE.filter(({ timestamp }) => timestamp !== undefined))(
  'an old delivery is refused, and one of the future: $name',
  async ({ name }) => {
    expect((await sendSigned(name, '--age', '4000')).stdout).toMatch(/^401 .*"timestamp_skew"/);
    expect((await sendSigned(name, '--age', '-4000')).stdout).toMatch(/^401 .*"timestamp_skew"/);
    expect((await sendSigned(name, '--age', '200')).stdout).toMatch(/^200 /);
  },
);

it.each([
  ['an age that is no number', ['github', '--age', 'old'], '--age "old": expected an integer'],
  ['no repetition', ['github', '--repeat', '0'], '--repeat "0": expected an integer from 1'],
  ['an address without http', ['github', '--to', 'localhost:3000'], '--to "localhost:3000": expected an absolute URL'],
  ['a header without a colon', ['github', '--header', 'x'], '--header "x": expected "Name: value"'],
  ['a body that is not there', ['github', '--body', 'none.json'], '--body none.json: ENOENT'],
  ['a body that the scheme cannot write into', ['linear', '--body', 'manifests/list.txt'], 'Linear: the body must be'],
  ['a folder that is not there', ['github', '--manifests', 'none'], 'error none: cannot be read'],
  ['no slug', [], "error: missing required argument 'slugOrId'"],
])('says what is wrong with %s, in words and exit code 2', async (_, args, message) => {
  await writeFile(join(workspace().folder, 'manifests', 'list.txt'), '[1]');
  const { code, stdout, stderr } = await runCli(workspace(), ['send', ...args]);
  expect(stderr).toContain(message);
  expect(stderr).not.toContain('    at ');
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
});
