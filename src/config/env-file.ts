import { readFileSync, statSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { processEnvironment, SettingsError, setVariables } from './settings.ts';

export const ENV_FILE = '.env';

/** Environment variables from a file. */
export interface EnvFile {
  /** The file name, if the file exists. */
  name(): string | undefined;
  /**
   * Reads the file again: sets its variables, and unsets variables that were removed from it. Throws `SettingsError`
   * and changes nothing if the file cannot be read.
   */
  readAgain(): void;
}

/**
 * Reads variables from a file, as Node's `--env-file` does: variables that are already set take precedence. Without a
 * name, reads `.env` in the working directory if it exists. Throws `SettingsError`.
 */
export function readEnvFile(named?: string): EnvFile {
  const own = new Set<string>();
  let name: string | undefined;
  const read = () => {
    // Something else named `.env`, such as a Python folder, is ignored. A file that was read and disappeared is an
    // error.
    const isThere = statSync(ENV_FILE, { throwIfNoEntry: false })?.isFile() === true;
    if (named === undefined && name === undefined && !isThere) return;
    const file = named ?? ENV_FILE;
    const given = variablesIn(file, named === undefined ? ENV_FILE : `--env-file "${named}"`);
    const environment = processEnvironment();
    const free = Object.keys(given).filter((key) => own.has(key) || environment[key] === undefined);
    const gone = [...own].filter((key) => !free.includes(key));
    setVariables(Object.fromEntries([...gone.map((key) => [key, undefined]), ...free.map((key) => [key, given[key]])]));
    for (const key of gone) own.delete(key);
    for (const key of free) own.add(key);
    name = file;
  };
  read();
  return { name: () => name, readAgain: read };
}

function variablesIn(file: string, label: string): Readonly<Record<string, string | undefined>> {
  let text: string;
  try {
    text = readFileSync(file, 'utf8').replace(/^\uFEFF/, '');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const reason = { ENOENT: 'there is no such file', EISDIR: 'is a folder, not a file' }[code ?? ''];
    throw new SettingsError([`${label}: ${reason ?? `cannot be read: ${message}`}`]);
  }
  if (/[\0\uFFFD]/.test(text)) throw new SettingsError([`${file}: is not UTF-8 text`]);
  const mistakes = mistakesIn(text);
  if (mistakes.length > 0) throw new SettingsError(mistakes.map((mistake) => `${file}: ${mistake}`));
  return parseEnv(text);
}

/**
 * Finds lines that set nothing, and variables with two values, of which the last would count: a setting would silently
 * differ from what the file seems to say. Never quotes a value.
 */
function mistakesIn(text: string): string[] {
  const lines = text.split('\n');
  // A mark before a line is read as a variable unless the line is inside a quoted value.
  const read = parseEnv(lines.map((line, at) => `${MARK}${at}=\n${line}`).join('\n'));
  const isOwn = (line: string, at: number) => read[`${MARK}${at}`] !== undefined && !/^\s*(#|$)/.test(line);
  const values = parseEnv(
    lines.map((line, at) => (isOwn(line, at) ? line.replace(NAME, `${MARK}${at}`) : line)).join('\n'),
  );
  const found = new Map<string, number>();
  return lines.flatMap((line, at) => {
    if (!isOwn(line, at)) return [];
    const [, name = ''] = NAME.exec(line) ?? [];
    if (name === '') return [`line ${at + 1} is not read: it is no NAME=value and no comment`];
    const before = found.get(name);
    found.set(name, at);
    if (before === undefined || values[`${MARK}${before}`] === values[`${MARK}${at}`]) return [];
    return [`${name} has one value on line ${before + 1} and another one on line ${at + 1}; leave one of them out`];
  });
}

const MARK = 'GIVEN_HERE_';
/** The name in a line, up to the equals sign. */
const NAME = /^\s*(?:export\s+)?([^\s=#][^=]*?)\s*(?==)/;
