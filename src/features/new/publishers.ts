import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { meant, namesLike } from '../../commands/lists.ts';
import type { WebhookInputs } from '../../manifest/webhook-inputs.ts';
import { beginsWith, plainName } from '../../model/plain-name.ts';
import { commandHere } from '../../version.ts';
import { BUILT_IN_SCHEMES, STANDARD_PUBLISHERS } from '../../webhooks/schemes/publishers/index.ts';
import { createSchemeRegistry, resolveScheme } from '../../webhooks/schemes/resolve.ts';
import { randomKey, signsWithSameKey } from '../../webhooks/schemes/sign.ts';
import type { SignatureSpec } from '../../webhooks/schemes/spec.ts';

/** One page of docs/publishers: who sends, what to enter there, and a manifest that works. */
export interface Publisher {
  readonly page: string;
  /** Name, scheme and everything else that it may be called. */
  readonly names: readonly string[];
  readonly title: string;
  /** Section "At the publisher", Markdown. */
  readonly steps: string;
  readonly manifest: PublisherManifest;
  readonly inputs: WebhookInputs;
  readonly signing: Signing;
}

/** What is to be known of a scheme before there is a trigger. */
interface Signing {
  readonly keyIsChosen: boolean;
  /** Whether a key of the trigger also signs, as far as its scheme says; undefined where the key decides. */
  readonly signsWithSameKey: boolean | undefined;
  randomKey(): string;
}

interface PublisherManifest {
  readonly name: string;
  readonly triggers: Readonly<Record<string, { readonly type: string; readonly inputs: WebhookInputs }>>;
  readonly [field: string]: unknown;
}

const require = createRequire(import.meta.url);

/** The build puts the pages beside the code, so that an installed package has them too. */
export function readPublishers(): Publisher[] {
  const folder = join(dirname(require.resolve('#package.json')), 'dist/publishers');
  const publishers = readdirSync(folder).flatMap((page) => {
    const text = readFileSync(join(folder, page), 'utf8');
    const [, title = ''] = /^# (.+)$/m.exec(text) ?? [];
    const [, scheme] = /^Scheme `(\w+)`/m.exec(text) ?? [];
    const [, steps = ''] = /^## At the publisher\n+([\s\S]*?)\n+## /m.exec(text) ?? [];
    const [, json = ''] = /```json\n([\s\S]*?)```/.exec(text) ?? [];
    // The page about schemes of one's own has several manifests, and the index none.
    if (scheme === undefined || steps === '') return [];
    const spec = BUILT_IN_SCHEMES.find(({ name }) => name === scheme);
    const manifest = JSON.parse(json) as PublisherManifest;
    const inputs = Object.values(manifest.triggers)[0]?.inputs ?? {};
    // Several publishers may use a scheme that is none's own.
    const { name, aliases = [] } = [...BUILT_IN_SCHEMES, ...STANDARD_PUBLISHERS].find((it) => it.name === scheme) ?? {};
    const own = name === undefined ? [] : [name, ...aliases];
    const names = [...own.slice(0, 1), title, basename(page, '.md'), ...own.slice(1)];
    return [{ page, names, title, steps, manifest, inputs, signing: signingOf(spec ?? sharedSpec(inputs)) }];
  });
  return publishers.sort((a, b) => (a.names[0] ?? '').localeCompare(b.names[0] ?? '', 'en'));
}

/** Of a scheme that the fields of a trigger complete; undefined for that of a standard. */
function sharedSpec(inputs: WebhookInputs): SignatureSpec | undefined {
  const scheme = resolveScheme(createSchemeRegistry(), inputs);
  return scheme?.kind === 'spec' ? scheme.spec : undefined;
}

function signingOf(spec: SignatureSpec | undefined): Signing {
  if (spec === undefined) {
    return { keyIsChosen: false, signsWithSameKey: undefined, randomKey: () => randomBytes(32).toString('hex') };
  }
  return {
    keyIsChosen: spec.keyIsChosen === true,
    signsWithSameKey: signsWithSameKey(spec),
    randomKey: () => randomKey(spec),
  };
}

export function publisherNamed(text: string, publishers: readonly Publisher[]): Publisher | Mistake {
  const exact = publishers.find(({ names }) => names.some((name) => plainName(name) === plainName(text)));
  if (exact !== undefined) return exact;
  const alike = plainName(text) === '' ? [] : publishers.filter(({ names }) => beginsWith(names, text));
  if (alike.length === 1 && alike[0] !== undefined) return alike[0];
  const namesOf = (found: readonly Publisher[]) => found.map(({ names }) => names[0] ?? '');
  const most = namesOf(alike.slice(0, MOST_NAMED)).join(', ');
  const more = alike.length > MOST_NAMED ? ` or ${alike.length - MOST_NAMED} others` : '';
  if (alike.length > 1) return new Mistake(`"${text}" may be ${most}${more}; write more of the name`);
  // Without titles, which are written in words, and pages.
  const names = publishers.flatMap((publisher) => publisher.names.filter((name) => /^[A-Z]\w*$/.test(name)));
  const nearest = meant(namesLike(text, names)) || `; \`${commandHere()} schemes\` lists them.`;
  const others = 'For your own sender use Generic; for other signatures read docs/publishers/custom.md.';
  return new Mistake(`There is no publisher "${text}"${nearest} ${others}`);
}

/** A list of all would be a page. */
const MOST_NAMED = 8;

/** What a person wrote and cannot be used, in words for them. */
export class Mistake {
  readonly message: string;
  constructor(message: string) {
    this.message = message;
  }
}
