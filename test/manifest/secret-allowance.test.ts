import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { allowsEverything, isSecretEntry, secretAllowance, secretReader } from '../../src/manifest/read-secret.ts';
import { temporaryFolder } from '../temporary.ts';

const ENV = {
  ...{ SECRET_A: 'a', PAY_KEY: 'p', PATH: '/bin', AWS_SECRET_ACCESS_KEY: 'aws', secret_b: 'b' },
  SLUICE_STORE_KEY: 's',
};

let folder: string;
beforeAll(async () => {
  folder = temporaryFolder('allowance');
  const write = (path: string) => writeFile(join(folder, path), `in ${path}`);
  for (const name of ['manifests', 'allowed', 'allowed/inner', 'allowed-not', 'outside']) {
    await mkdir(join(folder, name));
  }
  for (const path of ['allowed/key', 'allowed/inner/key', 'allowed-not/key', 'outside/key']) await write(path);
  await symlink(join(folder, 'outside/key'), join(folder, 'allowed/link'));
  await symlink(join(folder, 'outside'), join(folder, 'allowed/folder-link'));
  await symlink(join(folder, 'outside/nothing'), join(folder, 'allowed/dangling'));
  await symlink('looped', join(folder, 'allowed/looped'));
  await symlink(join(folder, 'allowed/key'), join(folder, 'allowed/good-link'));
  await symlink(join(folder, 'allowed'), join(folder, 'other-name'));
});

function reader(entries?: readonly string[], used: readonly string[] = []) {
  const baseFolder = join(folder, 'manifests');
  const allowance = secretAllowance({ entries, readSecret: secretReader({ env: ENV, baseFolder }), baseFolder });
  allowance.useFolder(used);
  return allowance.readSecret;
}

/** The value, or whether it was forbidden or could not be read. */
function outcome(reference: string, entries?: readonly string[], used?: readonly string[]): string {
  const read = reader(entries, used)(reference);
  if ('value' in read) return read.value;
  return read.isForbidden === true ? 'forbidden' : 'unread';
}

describe('a manifest that came in over the API', () => {
  it.each<[string, string[] | undefined, string[], string]>([
    ['env:SECRET_A', undefined, [], 'a'],
    ['ENV:SECRET_A', undefined, [], 'a'],
    ['env:SECRET_NOT_SET', undefined, [], 'unread'],
    ['env:PAY_KEY', undefined, [], 'forbidden'],
    ['env:PAY_KEY', undefined, ['env:PAY_KEY'], 'p'],
    ['env:AWS_SECRET_ACCESS_KEY', undefined, ['env:PAY_KEY'], 'forbidden'],
    ['env:secret_b', undefined, [], 'forbidden'],
    ['env:PATH', ['env:PAY_*'], [], 'forbidden'],
    ['env:PAY_KEY', ['env:PAY_*'], [], 'p'],
    ['env:PAY_KEY', ['PAY_KE?'], [], 'p'],
    ['env:SECRET_A', ['PAY_*'], [], 'forbidden'],
    ['env:PAY_KEY', ['SECRET_*'], ['env:PAY_KEY'], 'forbidden'],
    ['env:PAY_KEY', [], [], 'forbidden'],
    ['env:PAY_KEY', ['PAY.KEY'], [], 'forbidden'],
    ['env:PAY_KEY', ['PAY'], [], 'forbidden'],
    ['env:', ['*'], [], 'unread'],
    ['env:SLUICE_STORE_KEY', ['*'], [], 'forbidden'],
    ['env:SLUICE_STORE_KEY', ['*_KEY', 'env:?LUICE_STORE_KEY'], [], 'forbidden'],
    ['env:SLUICE_STORE_KEY', ['env:SLUICE_STORE_KEY'], [], 's'],
  ])('reads %s with %j, and %j in the folder: %s', (reference, entries, used, expected) => {
    expect(outcome(reference, entries, used)).toBe(expected);
  });

  it.each<[string, string[] | undefined, string[], string]>([
    ['file:../allowed/key', undefined, [], 'forbidden'],
    ['file:../allowed/key', undefined, ['file:../allowed/key'], 'in allowed/key'],
    ['file:../allowed/inner/key', undefined, ['file:../allowed/key'], 'forbidden'],
    ['file:../allowed/key', ['file:../allowed'], [], 'in allowed/key'],
    ['file:../allowed/inner/../key', ['../allowed'], [], 'in allowed/key'],
    ['file:../allowed/inner/key', ['file:../allowed/'], [], 'in allowed/inner/key'],
    ['file:../allowed/none', ['file:../allowed'], [], 'unread'],
    ['file:../allowed/none/none', ['file:../allowed'], [], 'unread'],
    ['file:../allowed-not/key', ['file:../allowed'], [], 'forbidden'],
    ['file:../allowed/../outside/key', ['file:../allowed'], [], 'forbidden'],
    ['file:../outside/none', ['file:../allowed'], [], 'forbidden'],
    ['file:/etc/passwd', ['file:../allowed'], [], 'forbidden'],
    ['file:../allowed/link', ['file:../allowed'], [], 'forbidden'],
    ['file:../allowed/folder-link/key', ['file:../allowed'], [], 'forbidden'],
    ['file:../allowed/folder-link/none', ['file:../allowed'], [], 'forbidden'],
    ['file:../allowed/dangling', ['file:../allowed'], [], 'forbidden'],
    ['file:../allowed/looped', ['file:../allowed'], [], 'forbidden'],
    ['file:../allowed/good-link', ['file:../allowed'], [], 'in allowed/key'],
    ['file:../other-name/key', ['file:../other-name'], [], 'in allowed/key'],
    ['file:../other-name/key', ['file:../allowed'], [], 'forbidden'],
    ['file:../allowed/key\0', ['file:../allowed'], [], 'unread'],
    ['file:../allowed/key', ['SECRET_*'], [], 'forbidden'],
  ])('reads %s with %j, and %j in the folder: %s', (reference, entries, used, expected) => {
    expect(outcome(reference, entries, used)).toBe(expected);
  });

  it('gets the same refusal for what exists and what does not', () => {
    const errorOf = (reference: string) => {
      const read = reader()(reference);
      return 'error' in read ? read.error.replaceAll(reference, '…') : 'a value';
    };
    expect(errorOf('env:PATH')).toBe(errorOf('env:NO_SUCH_NAME'));
    expect(errorOf('file:../outside/key')).toBe(errorOf('file:../outside/none'));
    expect(errorOf('file:../outside/key/key')).toBe(errorOf('file:../outside/none'));
    expect(errorOf('env:PATH')).toContain('set SLUICE_MANIFEST_SECRETS to a list that contains');
  });

  it('may reference what the folder uses now, not what it used before', () => {
    const baseFolder = join(folder, 'manifests');
    const readSecret = secretReader({ env: ENV, baseFolder });
    const allowance = secretAllowance({ entries: undefined, readSecret, baseFolder });
    allowance.useFolder(['env:PAY_KEY']);
    expect(allowance.readSecret('env:PAY_KEY')).toEqual({ value: 'p' });
    allowance.useFolder([]);
    expect(allowance.readSecret('env:PAY_KEY')).toMatchObject({ isForbidden: true });
    expect(allowance.readSecret('env:SECRET_A')).toEqual({ value: 'a' });
  });

  it('never reads a variable outside the list', () => {
    const readSecret = () => ({ value: 'read' });
    const { readSecret: read } = secretAllowance({ entries: ['PAY_*'], readSecret, baseFolder: folder });
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), (name) => {
        expect('value' in read(`env:${name}`)).toBe(name.startsWith('PAY_'));
      }),
    );
  });

  it('never reads a file outside the folder by any path', () => {
    const part = fc.constantFrom(
      '..',
      '.',
      'allowed',
      'inner',
      'key',
      'outside',
      'folder-link',
      'link',
      'other-name',
      '',
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 8 }), (parts) => {
        const read = reader(['file:../allowed'])(`file:../${parts.join('/')}`);
        if ('value' in read) expect(read.value).toMatch(/^in allowed\//);
      }),
    );
  });
});

describe('an entry of the list', () => {
  it.each(['env:A', 'A_*', 'PAY_?', 'file:secrets', '/run/secrets', './secrets', 'ProgramFiles(x86)'])(
    'may be %s',
    (entry) => {
      expect(isSecretEntry(entry)).toBe(true);
    },
  );

  it.each(['', 'env:', 'file:', 'A B', 'env:A=B', 'A$', 'SLUICE_*', 'env:SLUICE_STORE_KE?'])(
    'may not be "%s"',
    (entry) => {
      expect(isSecretEntry(entry)).toBe(false);
    },
  );

  it.each([[['*']], [['env:**']], [['file:/']], [['SECRET_*', '/']]])('%j allows everything', (entries) => {
    expect(allowsEverything(entries)).toBe(true);
  });

  it.each([[['SECRET_*']], [['file:/run/secrets']], [[]]])('%j does not allow everything', (entries) => {
    expect(allowsEverything(entries)).toBe(false);
  });
});
