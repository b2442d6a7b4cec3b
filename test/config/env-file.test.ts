import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { readEnvFile } from '../../src/config/env-file.ts';
import { SettingsError } from '../../src/config/settings.ts';
import { temporaryFolder } from '../temporary.ts';

function read(text: string | Buffer) {
  const file = join(temporaryFolder('env'), 'own.env');
  writeFileSync(file, text);
  onTestFinished(() => {
    for (const name of Object.keys(process.env)) if (name.startsWith('OWN_')) delete process.env[name];
  });
  readEnvFile(file);
}

describe('a file of variables', () => {
  it.each([
    [
      'two modes',
      'OWN_MODE=Enforce\nOWN_KEY=k\nOWN_MODE=Off\n',
      'OWN_MODE has one value on line 1 and another one on line 3',
    ],
    [
      'an exported one',
      'export OWN_MODE=Enforce\r\n  OWN_MODE = "Off"\r\n',
      'OWN_MODE has one value on line 1 and another one on line 2',
    ],
    ['an empty one', 'OWN_MODE=Enforce\nOWN_MODE=\n', 'OWN_MODE has one value on line 1 and another one on line 2'],
  ])('that has %s is refused by its lines, and quotes no value', (_what, text, message) => {
    expect(() => read(text)).toThrow(SettingsError);
    expect(() => read(text)).toThrow(message);
    expect(() => read(text)).not.toThrow(/Enforce|Off/);
    expect(process.env.OWN_MODE).toBeUndefined();
  });

  it.each([
    ['a colon', 'OWN_KEY=k\nOWN_MODE: Enforce\n'],
    ['no value', 'OWN_KEY=k\nexport OWN_MODE\n'],
    ['what a shell would do', 'OWN_KEY=k\nset -o allexport Enforce\n'],
  ])('with a line of %s is refused: nothing would be read of it', (_what, text) => {
    expect(() => read(text)).toThrow('line 2 is not read: it is no NAME=value and no comment');
    expect(() => read(text)).not.toThrow('Enforce');
    expect(process.env.OWN_KEY).toBeUndefined();
  });

  it('that is not there is refused by the name that was given', () => {
    const folder = temporaryFolder('env');
    const missing = join(folder, 'own.env');
    expect(() => readEnvFile(missing)).toThrow(SettingsError);
    expect(() => readEnvFile(missing)).toThrow(`--env-file "${missing}": there is no such file`);
    expect(() => readEnvFile(folder)).toThrow(`--env-file "${folder}": is a folder, not a file`);
  });

  it('may begin with a byte order mark, and is refused in UTF-16', () => {
    read('\uFEFFOWN_MODE=Enforce\n');
    expect(process.env.OWN_MODE).toBe('Enforce');
    expect(() => read(Buffer.from('\uFEFFOWN_MODE=Enforce\n', 'utf16le'))).toThrow('is not UTF-8 text');
  });

  it.each<[string, string]>([
    ['a PEM', 'OWN_A="-----BEGIN KEY-----\nMIIE\n-----END KEY-----"\nOWN_B=b\n'],
    ['quotes of three kinds', `OWN_A='one\ntwo'\nOWN_B="one\n\n#two"\nOWN_C=\`{\n "a": 1\n}\`\r\nOWN_D=d\n`],
    ['comments and blank lines', '# OWN_A: no\n\n  \nOWN_A=1 # one\nOWN_B="x=y#z" # two\nOWN_C=\n'],
    ['exported names and spaces', 'export OWN_A=1\n OWN_B = 2 \nOWN_C= "3"'],
    ['a name of other letters', 'OWN_Ä=1\n'],
    ['nothing', ''],
  ])('with %s is read as Node reads it', (_what, text) => {
    read(text);
    const given = Object.entries(process.env).filter(([name]) => name.startsWith('OWN_'));
    expect(Object.fromEntries(given)).toEqual(parseEnv(text));
  });

  it('of thousands of lines is read at once', () => {
    read(Array.from({ length: 5000 }, (_, at) => `OWN_${at}=${at}`).join('\n'));
    expect(process.env.OWN_4999).toBe('4999');
  });

  it('may repeat a value, and may have lines in quotes and comments that look like variables', () => {
    read('OWN_A=1\nOWN_PEM="first\nOWN_A=2\nOWN_B=3"\n# OWN_A=4\nOWN_A=1\n');
    expect([process.env.OWN_A, process.env.OWN_PEM, process.env.OWN_B]).toEqual([
      '1',
      'first\nOWN_A=2\nOWN_B=3',
      undefined,
    ]);
  });
});
