import { execFileSync } from 'node:child_process';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { type SecretReader, secretReader } from '../../src/manifest/read-secret.ts';
import { temporaryFolder } from '../temporary.ts';

let folder = '';
let read: SecretReader = () => ({ error: 'not yet' });

beforeAll(async () => {
  folder = temporaryFolder('secret');
  await writeFile(join(folder, 'plain'), 'a key');
  await writeFile(join(folder, 'line'), 'a key\n');
  await writeFile(join(folder, 'windows'), 'a key\r\n');
  await writeFile(join(folder, 'lines'), ' a\nkey \n\n');
  await writeFile(join(folder, 'empty'), '\n');
  await writeFile(join(folder, 'binary'), Buffer.from([0xff, 0xfe, 0x00]));
  await writeFile(join(folder, 'large'), 'x'.repeat(65_537));
  await mkdir(join(folder, 'folder'));
  execFileSync('mkfifo', [join(folder, 'pipe')]);
  await symlink(join(folder, 'plain'), join(folder, 'link'));
  read = secretReader({ env: { KEY: 'a value', EMPTY: '', 'ODD:NAME': 'odd' }, baseFolder: folder });
});

describe('reads', () => {
  test.each([
    ['a variable', 'env:KEY', 'a value'],
    ['a variable in any case of env', 'Env:KEY', 'a value'],
    ['a variable with a colon', 'env:ODD:NAME', 'odd'],
    ['a file', 'file:plain', 'a key'],
    ['a file without the line end', 'file:line', 'a key'],
    ['a file without the Windows line end', 'file:windows', 'a key'],
    ['a file with all but one line end', 'file:lines', ' a\nkey \n'],
    ['a link to a file', 'file:link', 'a key'],
    ['a file in a folder above', 'file:folder/../plain', 'a key'],
  ])('%s', (_rule, reference, value) => {
    expect(read(reference)).toEqual({ value });
  });

  test('a file by its absolute path', () => {
    expect(read(`file:${join(folder, 'plain')}`)).toEqual({ value: 'a key' });
  });
});

describe('refuses', () => {
  test.each([
    ['a variable that is not set', 'env:NOPE', 'the environment variable NOPE is not set'],
    ['a variable of another case', 'env:key', 'the environment variable key is not set'],
    ['a variable that is empty', 'env:EMPTY', 'the environment variable EMPTY is empty'],
    ['a property of the prototype', 'env:toString', 'the environment variable toString is not set'],
    ['no name', 'env:', 'does not name a secret; use env:NAME or file:PATH'],
    ['no reference', 'a key', 'does not name a secret; use env:NAME or file:PATH'],
    ['a file that is not there', 'file:nope', 'the file nope cannot be read: ENOENT'],
    ['a file with a line end alone', 'file:empty', 'the file empty is empty'],
    ['a folder', 'file:folder', 'folder is a folder, not a file'],
    ['a file that is not text', 'file:binary', 'the file binary is not UTF-8 text'],
    ['a file too large for a key', 'file:large', 'large has more than 65536 bytes'],
    ['a named pipe', 'file:pipe', 'pipe is a named pipe, not a file'],
    ['a device', 'file:/dev/zero', '/dev/zero is a device, not a file'],
  ])('%s', (_rule, reference, error) => {
    expect(read(reference)).toEqual({ error });
  });
});
