import type { WebhookInputs } from '../../manifest/webhook-inputs.ts';
import { plainName } from '../../model/plain-name.ts';
import { printable } from '../../model/text.ts';
import { BUILT_IN_SCHEMES } from '../../webhooks/schemes/publishers/index.ts';

/** What was found in a file of another service. */
export interface Imported {
  readonly triggers: readonly ImportedTrigger[];
  /** What became no trigger, and why. Never holds a secret. */
  readonly leftOut: readonly string[];
}

export interface ImportedTrigger {
  /** What it is called there. */
  readonly name: string;
  /** The scheme of a publisher, whose page has the other fields; the fields themselves; or undefined where nothing is verified. */
  readonly verifiedBy: { readonly scheme: string } | { readonly inputs: WebhookInputs } | undefined;
  /** Fields that go with any scheme. */
  readonly inputs?: WebhookInputs;
  /** Which value of the file is the key; undefined where the file has none. */
  readonly key?: ImportedKey | undefined;
  /** What is good to know, and what is the reader's to do. */
  readonly notes: readonly string[];
  /** What the file says and the manifest does not. Never holds a secret. */
  readonly notTaken: readonly string[];
}

export interface ImportedKey {
  /** Where the value is, such as `config.auth.webhook_secret_key`; undefined where the file does not have it. */
  readonly at?: string | undefined;
}

/** A file that is not what it was said to be. */
export class NotReadable extends Error {}

export type Members = Readonly<Record<string, unknown>>;

export function membersOf(value: unknown): Members | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Members) : undefined;
}

/** Empty where the value is no list. */
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** The items of a list that have members. */
export const membersIn = (value: unknown): Members[] =>
  listOf(value)
    .map(membersOf)
    .filter((members) => members !== undefined);

/** A text that is not empty. */
export const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value.trim() !== '' ? value : undefined;

/** Exports are shallow; a deeper one was made to be expensive. */
const MOST_LEVELS = 24;

/** Every object in a document, from the outside in, with the keys that lead to it; `enters` says which of them to look into. */
export function* objectsIn(
  value: unknown,
  enters: (members: Members, path: readonly string[]) => boolean,
  path: readonly string[] = [],
): Generator<Members> {
  if (path.length > MOST_LEVELS) throw new NotReadable(`the file is nested more than ${MOST_LEVELS} levels deep`);
  const members = membersOf(value);
  if (members !== undefined) {
    yield members;
    if (!enters(members, path)) return;
  }
  for (const [key, child] of Object.entries(members ?? listOf(value))) {
    if (typeof child === 'object' && child !== null) yield* objectsIn(child, enters, [...path, key]);
  }
}

/** The built-in scheme of that name, whatever its case; undefined where there is none. */
export function schemeCalled(name: string): string | undefined {
  const wanted = plainName(name);
  const found = BUILT_IN_SCHEMES.find((spec) =>
    [spec.name, spec.title, ...(spec.aliases ?? [])].some((known) => plainName(known) === wanted),
  );
  return wanted === '' ? undefined : found?.name;
}

const MOST_CHARACTERS = 60;

/** A name out of the file, for a line of text. */
export function quoted(name: string): string {
  const text = printable(name);
  return `"${text.length <= MOST_CHARACTERS ? text : `${text.slice(0, MOST_CHARACTERS - 1)}…`}"`;
}
