import { readFileSync, statSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { processEnvironment, SettingsError, setVariables } from './settings.ts';

export const ENV_FILE = '.env';

/** Variables of the environment that come from a file. */
export interface EnvFile {
  /** Its name, if it is there. */
  name(): string | undefined;
  /**
   * Reads it again: its variables get their new values, and those that are no longer in it are gone. Throws `SettingsError`,
   * and changes nothing, where it cannot be read.
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
    // What is there by chance under this name, such as a folder of Python, is none. One that was there and is gone is missed.
    const isThere = statSync(ENV_FILE, { throwIfNoEntry: false })?.isFile() === true;
    if (named === undefined && name === undefined && !isThere) return;
    const file = named ?? ENV_FILE;
    const given = variablesIn(file);
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

function variablesIn(file: string): Readonly<Record<string, string | undefined>> {
  let text: string;
  try {
    text = readFileSync(file, 'utf8').replace(/^\uFEFF/, '');
  } catch (error) {
    throw new SettingsError([`${file}: cannot be read: ${error instanceof Error ? error.message : String(error)}`]);
  }
  if (/[\0\uFFFD]/.test(text)) throw new SettingsError([`${file}: is not UTF-8 text`]);
  const mistakes = mistakesIn(text);
  if (mistakes.length > 0) throw new SettingsError(mistakes.map((mistake) => `${file}: ${mistake}`));
  return parseEnv(text);
}

/**
 * Lines that nothing is read of, and variables that have two values, of which the last would count: a setting would be at
 * another value than it seems, without a word. Never quotes a value.
 */
function mistakesIn(text: string): string[] {
  const lines = text.split('\n');
  // What is put before a line is read unless the line is within a quoted value.
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
/** Of a variable, up to the equals sign. */
const NAME = /^\s*(?:export\s+)?([^\s=#][^=]*?)\s*(?==)/;
