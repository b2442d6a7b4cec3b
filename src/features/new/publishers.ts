import { randomBytes } from 'node:crypto';
import { meant, namesLike } from '../../commands/lists.ts';
import type { WebhookInputs } from '../../manifest/webhook-inputs.ts';
import { beginsWith, plainName } from '../../model/plain-name.ts';
import { commandHere } from '../../version.ts';
import { STANDARD_ROWS } from '../../webhooks/schemes/publishers/by-standard.ts';
import { BUILT_IN_SCHEMES, PUBLISHERS } from '../../webhooks/schemes/publishers/index.ts';
import {
  type FirstFlow,
  firstFlow,
  loggingFlow,
  publisherInputs,
  publisherOf,
  slugOf,
} from '../../webhooks/schemes/publishers/inputs.ts';
import { createSchemeRegistry, resolveScheme } from '../../webhooks/schemes/resolve.ts';
import { randomKey, signsWithSameKey } from '../../webhooks/schemes/sign.ts';
import type { SignatureSpec } from '../../webhooks/schemes/spec.ts';

/** A publisher, what to enter there, and a first flow. */
export interface Publisher {
  /** Name, scheme and all other names that find it. */
  readonly names: readonly string[];
  readonly title: string;
  /** What to do at the publisher, step by step, in Markdown; `{URL}` is the URL of the trigger. */
  readonly clickPath: readonly string[];
  /** Its flow, given the URL of its trigger. */
  flow(url: string): FirstFlow;
  /** The fields of that trigger, also with `{URL}`. */
  readonly inputs: WebhookInputs;
  readonly signing: Signing;
}

/** What must be known of a scheme before there is a trigger. */
interface Signing {
  readonly keyIsChosen: boolean;
  /** Whether a key of the trigger can also sign, according to its scheme; undefined if the key decides. */
  readonly signsWithSameKey: boolean | undefined;
  randomKey(): string;
}

/** All publishers with a page in docs/publishers, by name. */
export function knownPublishers(): Publisher[] {
  const publishers = [...PUBLISHERS, ...STANDARD_ROWS].flatMap(({ name, aliases = [] }): Publisher | [] => {
    const { row, subject } = publisherOf(name) ?? {};
    if (row === undefined || subject === undefined) return [];
    const { title } = subject;
    const inputs = publisherInputs(row, subject, '{URL}');
    return {
      names: [name, title, slugOf(title, row), ...aliases],
      ...{ title, clickPath: row.clickPath, inputs },
      flow: (url) => firstFlow(row, subject, url),
      signing: signingOf(BUILT_IN_SCHEMES.find((spec) => spec.name === name) ?? sharedSpec(inputs)),
    };
  });
  return [...publishers, ANY_BY_RFC_9421].sort((a, b) => (a.names[0] ?? '').localeCompare(b.names[0] ?? '', 'en'));
}

const RFC_9421 = 'HTTP message signatures (RFC 9421)';
const SIGNED: WebhookInputs = {
  webhookSlug: 'signed',
  webhookSignatureScheme: 'HttpMessageSignatures',
  webhookHmacKey: 'env:SIGNED_KEY',
  webhookSignatureKeyId: 'key-1',
  webhookRequireTimestamp: true,
  webhookReplayToleranceSeconds: 300,
  webhookDuplicateResponse: 'acknowledge',
  webhookEnforcementMode: 'Enforce',
};

/** The only standard that is used as a scheme without a publisher. */
const ANY_BY_RFC_9421: Publisher = {
  names: ['HttpMessageSignatures', RFC_9421, 'message-signatures'],
  title: RFC_9421,
  clickPath: [
    "Ask for the publisher's public key, or for the URL of its key set (JWKS). With `hmac-sha256` both sides have the same secret.",
    'Enter `{URL}`.',
    'Its signatures have to cover `@method`, `@path` (or `@target-uri`) and `content-digest`. If they cover something else, set `webhookRequiredComponents`.',
  ],
  flow: () => loggingFlow('Signed messages', SIGNED, 'a signed message arrived'),
  inputs: SIGNED,
  signing: signingOf(undefined),
};

/** The spec completed by a trigger's fields; undefined for a standard. */
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
  // A scheme of its own, and also the beginning of Customer.io.
  if (plainName(text) === 'custom') {
    const own = 'Custom is a scheme whose fields you write; read docs/publishers/custom.md.';
    return new Mistake(
      `There is no publisher "${text}": ${own} For your own sender use Generic, for Customer.io customer-io.`,
    );
  }
  const alike = plainName(text) === '' ? [] : publishers.filter(({ names }) => beginsWith(names, text));
  if (alike.length === 1 && alike[0] !== undefined) return alike[0];
  const namesOf = (found: readonly Publisher[]) => found.map(({ names }) => names[0] ?? '');
  const most = namesOf(alike.slice(0, MOST_NAMED)).join(', ');
  const more = alike.length > MOST_NAMED ? ` or ${alike.length - MOST_NAMED} others` : '';
  if (alike.length > 1) return new Mistake(`"${text}" may be ${most}${more}; write more of the name`);
  // Without pages and titles, which are words.
  const names = publishers.flatMap((publisher) => publisher.names.filter((name) => /^[A-Z]\w*$/.test(name)));
  const nearest = meant(namesLike(text, names)) || `; \`${commandHere()} schemes\` lists them.`;
  const others = 'For your own sender use Generic; for other signatures read docs/publishers/custom.md.';
  return new Mistake(`There is no publisher "${text}"${nearest} ${others}`);
}

/** A list of all would fill a page. */
const MOST_NAMED = 8;

/** Unusable input, with a message for the person who wrote it. */
export class Mistake {
  readonly message: string;
  constructor(message: string) {
    this.message = message;
  }
}
