import type { WebhookInputs } from '../../gate.ts';
import { hasPart } from '../layout.ts';
import type { Conversation, PublisherSpec } from '../spec.ts';
import { describedStandard, knownPublisher } from '../standards/standard.ts';
import { STANDARD_ROWS } from './by-standard.ts';
import { BUILT_IN_SCHEMES, PUBLISHERS } from './index.ts';
import { type PageFacts, type StandardRow, standardPublisher } from './row.ts';

/** The facts that determine a trigger's fields, whether a spec or a standard describes its scheme. */
export interface TriggerSubject extends Pick<Conversation, 'handshakes'> {
  readonly name: string;
  readonly title: string;
  /** Header of the delivery id. */
  readonly id: string | undefined;
  readonly hasTimestamp: boolean;
  readonly isBySha1: boolean;
  readonly hasKey: boolean;
  /** Fields other than those for the key and for replays; `{URL}` is the trigger's URL. */
  readonly asks: Readonly<Record<string, string>>;
}

export function specSubject({
  name,
  title,
  handshakes,
  headers,
  timestamp,
  algorithm,
  signs,
}: PublisherSpec): TriggerSubject {
  return {
    ...{ name, title, handshakes },
    id: headers[0]?.deliveryId,
    hasTimestamp: timestamp !== undefined,
    isBySha1: algorithm === 'sha1',
    hasKey: true,
    asks: hasPart(signs, 'url', 'host') ? { webhookPublicUrl: '{URL}' } : {},
  };
}

export function standardSubject(row: StandardRow): TriggerSubject {
  const publisher = standardPublisher(row);
  const { rule } = describedStandard(knownPublisher(publisher), {});
  const { name, title, handshakes, form } = publisher;
  return {
    ...{ name, title, handshakes },
    id: undefined,
    hasTimestamp: rule.requiresTimestamp,
    isBySha1: false,
    hasKey: rule.keySetUrl === undefined && row.asks.webhookJwksUrl === undefined,
    asks: { ...row.asks, ...(form.urlHash?.of === 'url' && { webhookPublicUrl: '{URL}' }) },
  };
}

/** The slug of a publisher's pages and trigger. */
export function slugOf(title: string, { trigger }: Pick<PageFacts, 'trigger'>): string {
  return (
    trigger?.webhookSlug ??
    title
      .replace(/\(.*\)/g, '')
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, '-')
      .replace(/^-|-$/g, '')
  );
}

/** The URL of a trigger if there is no service yet. */
export const exampleUrl = (slug: string) => `https://hooks.example.com/flows/api/webhook/${slug}`;

/**
 * The fields of a trigger for the publisher's deliveries: those of the scheme, unless the row names others. `url` is
 * the URL of the trigger.
 */
export function publisherInputs(row: PageFacts, subject: TriggerSubject, url: string): WebhookInputs {
  const { name, title, id, handshakes = [] } = subject;
  const slug = slugOf(title, row);
  const variable = name.replace(/([a-z0-9])([A-Z])/g, '$1_$2').toUpperCase();
  const key = subject.hasKey ? { webhookHmacKey: `env:${variable}_KEY` } : {};
  const asked = Object.entries(subject.asks).map(([field, value]) => [field, value.replace('{URL}', url)]);
  const fields: { readonly [Field in keyof WebhookInputs]: WebhookInputs[Field] | null } = {
    webhookSlug: slug,
    webhookSignatureScheme: name,
    ...(handshakes.some(({ offeredKey }) => offeredKey !== undefined) ? { webhookLearnKey: true } : key),
    ...(handshakes.some(({ needsVerifyToken }) => needsVerifyToken === true) && {
      webhookVerifyToken: `env:${variable}_TOKEN`,
    }),
    ...(subject.isBySha1 && { webhookAllowSha1: true }),
    ...Object.fromEntries(asked),
    ...(id !== undefined && { webhookNonceHeader: id }),
    ...((subject.hasTimestamp || id === undefined) && { webhookReplayToleranceSeconds: row.toleranceSeconds ?? 300 }),
    webhookDuplicateResponse: 'acknowledge',
    ...row.trigger,
    webhookEnforcementMode: 'Enforce',
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

/** A first flow for the publisher's deliveries; `url` is the URL of its trigger. */
export function firstFlow(row: PageFacts, subject: TriggerSubject, url: string): FirstFlow {
  const name = subject.title.replace(/ *\(.*\)/g, '');
  const message = row.logs?.replaceAll('{', '${') ?? `a delivery of ${name} arrived`;
  return loggingFlow(name, publisherInputs(row, subject, url), message);
}

/** A flow with one trigger, whose key is its slug, and a step that logs each delivery. */
export function loggingFlow(name: string, inputs: WebhookInputs, message: string): FirstFlow {
  return {
    name,
    version: '1',
    triggers: { [inputs.webhookSlug ?? name]: { type: 'webhook', inputs } },
    steps: { log: { type: 'LogMessage', inputs: { message } } },
  };
}

/** A manifest without its id. */
export interface FirstFlow {
  readonly name: string;
  readonly version: string;
  readonly triggers: Readonly<Record<string, { readonly type: string; readonly inputs: WebhookInputs }>>;
  readonly steps: Readonly<Record<string, { readonly type: string; readonly inputs: object }>>;
}

interface Retries {
  readonly when: string;
  readonly howOften: string;
  /** Whether each retry has a new time and signature; null if this is not known. */
  readonly newlySigned: boolean | null;
}

/** How to set up a trigger for a publisher. */
export interface SetUp {
  /** Steps to take at the publisher, in Markdown; `{URL}` is the trigger's URL. */
  readonly clickPath: readonly string[];
  /** The fields of the trigger, with `{URL}` as above. */
  readonly inputs: WebhookInputs;
  /** Null if the publisher never retries or does not say. */
  readonly retries: Retries | null;
  /** The retries in Markdown, or why there are none; with where and when this was read. */
  readonly retriesInWords: string;
  /** Names of presets with its addresses for `webhookIpAllowListPreset`. */
  readonly presets: readonly string[];
}

/** Facts about the publisher of the scheme with this name; undefined if the scheme belongs to no publisher. */
export function publisherOf(scheme: string): { readonly row: PageFacts; readonly subject: TriggerSubject } | undefined {
  const standard = STANDARD_ROWS.find(({ name }) => name === scheme);
  if (standard !== undefined) return { row: standard, subject: standardSubject(standard) };
  const row = PUBLISHERS.find(({ name }) => name === scheme);
  const spec = BUILT_IN_SCHEMES.find(({ name }) => name === scheme);
  return row && spec && { row, subject: specSubject(spec) };
}

/** The set-up for the scheme with this name; null if the scheme belongs to no publisher. */
export function setUpOf(scheme: string): SetUp | null {
  const found = publisherOf(scheme);
  if (found === undefined) return null;
  const { row, subject } = found;
  const { clickPath, presets = [] } = row;
  const { retries, noRetries, where } = retriesOf(row);
  const signed = retries?.newlySigned ? ', each with a new signature' : ', with the same signature';
  const words = retries && `${retries.when}: ${retries.howOften}${retries.newlySigned === null ? '' : signed}`;
  const retriesInWords = `${words ?? noRetries} (${where})`;
  return { clickPath, inputs: publisherInputs(row, subject, '{URL}'), retries, retriesInWords, presets };
}

/** The retries in a row; `noRetries` says why there are none, and `where` is in Markdown. */
export function retriesOf({ retries, source }: Pick<PageFacts, 'retries' | 'source'>) {
  const read = retries.source ?? /https:\/\/[^\s,]+/.exec(source)?.[0] ?? '';
  const [, page = '', day = ''] = /^(.*?)(?:(?:, |^)read 2026-11(-\d\d)?)?$/.exec(read) ?? [];
  const date = day === '' ? 'as of November 2026' : `read on 2026-11${day}`;
  const where = page === '' ? date : `${page.replace(/(?<!\()https:\/\/[^\s,]+/g, '<$&>')}, ${date}`;
  if ('none' in retries) return { retries: null, noRetries: retries.none, where };
  const { when, howOften, newlySigned = null } = retries;
  const told: Retries = { when, howOften, newlySigned };
  return { retries: told, noRetries: '', where };
}
