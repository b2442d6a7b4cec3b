import type { KeyEncoding, SignatureEncoding } from '../../../model/manifest.ts';
import type { WebhookInputs } from '../../gate.ts';
import type { AcceptedResponse, Handshake } from '../handshake.ts';
import { isTimeInBodyAlone } from '../layout.ts';
import { fieldAt, parseForm, parseSigned, tokensOf } from '../notation.ts';
import type {
  BodyField,
  Certainty,
  HeaderFamily,
  Part,
  PublisherSpec,
  PublisherValue,
  SignatureSpec,
  SpecAlgorithm,
  TimestampSource,
} from '../spec.ts';
import type { StandardPublisher } from '../standards/standard.ts';
import { EACH } from '../values.ts';
import { type HandshakeForm, handshakeOf } from './handshake-form.ts';

/**
 * One publisher as data: what verifies its deliveries, and what its page says. What is left out is what most publishers do: the
 * hex of an HMAC-SHA256 of the body, with the text of the key. docs/extending.md shows how to write one.
 */
export interface PublisherRow {
  /** What a manifest calls the scheme: letters and digits. */
  readonly name: string;
  /** What the publisher calls itself, where that is another word. */
  readonly title?: string;
  /** Other names of the scheme. */
  readonly aliases?: readonly string[];

  /** The header that carries the signature, or members of the body, as `{field:a.b}`; several may each carry one. */
  readonly header: string | readonly (string | BodyField)[];
  /** What the header looks like, such as `t={timestamp},v1={signature},...`: see `parseForm`. */
  readonly form?: string;
  /** Such as `{timestamp}.{body}`: see `parseSigned`; a list where a part has options. Empty where nothing is signed. */
  readonly signs?: string | readonly Part[];
  readonly algorithm?: SpecAlgorithm;
  readonly encoding?: SignatureEncoding;
  readonly keyEncoding?: KeyEncoding;
  /** Whoever receives makes the key up and enters it at the publisher. */
  readonly keyIsChosen?: true;
  /** The header of the time that is signed, or a member of the body, as `{field:a.b}`. */
  readonly timestamp?: string | BodyField;
  /** Seconds where not given. */
  readonly unit?: TimestampSource['unit'];
  readonly timestampLength?: number;
  readonly requiresTimestamp?: true;
  /** The header of the id, which a delivery keeps when it is sent again. */
  readonly id?: string;
  /** Other names of the same headers. */
  readonly otherHeaders?: readonly HeaderFamily[];

  /** `{header:NAME}`, the first of several that is there, or `{field:a.b}`; or why there is none. */
  readonly eventType: string | readonly string[] | { readonly none: string };
  readonly eventId: string | readonly string[] | { readonly none: string };
  /** Where the publisher says that the event id is the same in each delivery of an event. */
  readonly eventIdSource?: string;
  readonly handshakes?: readonly (HandshakeForm | Handshake)[];
  readonly acceptedResponse?: AcceptedResponse;

  /** A form of the scheme for keys that begin with a text, and one for deliveries with another header. */
  readonly keyForm?: { readonly prefix: string; readonly row: RowForm };
  readonly requestForm?: RowForm;
  /** What few publishers have. */
  readonly others?: Partial<
    Pick<
      SignatureSpec,
      | 'alternatives'
      | 'isPrefixOptional'
      | 'ed25519'
      | 'algorithmField'
      | 'certificate'
      | 'document'
      | 'isUserAndPassword'
      | 'multiValue'
    >
  >;

  /** A real event, in JSON, and what goes with the headers of the signature. */
  readonly sample?: string;
  readonly sampleType?: string;
  readonly sampleHeaders?: Readonly<Record<string, string>>;

  /** What the first flow logs of each delivery, with expressions in `{}`; that it arrived where not given. */
  readonly logs?: string;
  /** What to do at the publisher, step by step, in Markdown; `{URL}` is that of the trigger. */
  readonly clickPath: readonly string[];
  /** What the key is called at the publisher, with an article. */
  readonly keyIs?: string;
  /** What follows a failed delivery. */
  readonly retries: Retries;
  /** Of the manifest on its page; 300 where not given. */
  readonly toleranceSeconds?: number;
  /** Fields of that trigger which are not as most publishers need them; null for one that it does not have. */
  readonly trigger?: { readonly [Field in keyof WebhookInputs]: WebhookInputs[Field] | null } & {
    readonly webhookSlug?: string;
  };
  /** Lists of its addresses, of `src/webhooks/networks/presets.ts`. */
  readonly presets?: readonly string[];
  /** What else its page says of the signature. */
  readonly note?: string;
  /** Where these facts were read, and when. */
  readonly source: string;
  readonly certainty: Certainty;
  /** What exactly is not confirmed. */
  readonly unconfirmed?: string;
  /** When a signed request of the publisher's was looked for in vain, where no test has a known answer. */
  readonly noVector?: string;
}

/** What of a row its scheme is made of. */
type SchemeRow = Omit<PublisherRow, 'clickPath' | 'retries'>;

/** Another form of the same scheme says only what differs. */
type RowForm = Partial<PublisherRow> & Pick<PublisherRow, 'header'>;

/** What the page of a publisher says of it, however it signs. */
export type PageFacts = Pick<
  PublisherRow,
  | 'name'
  | 'title'
  | 'aliases'
  | 'eventType'
  | 'eventId'
  | 'handshakes'
  | 'sample'
  | 'sampleType'
  | 'sampleHeaders'
  | 'logs'
  | 'clickPath'
  | 'keyIs'
  | 'retries'
  | 'toleranceSeconds'
  | 'trigger'
  | 'presets'
  | 'note'
  | 'source'
  | 'certainty'
  | 'unconfirmed'
  | 'noVector'
>;

/** A publisher that signs by a standard. */
export type StandardRow = PageFacts &
  Pick<StandardPublisher, 'standard' | 'fixed' | 'form'> & {
    /** What each trigger has to set, and what its page sets it to; `{URL}` is that of the trigger. */
    readonly asks: Readonly<Partial<Record<keyof WebhookInputs, string>>>;
  };

type Retries = (
  | {
      /** Such as "if the answer is no 2xx or takes more than 5 seconds". */
      readonly when: string;
      /** Such as "5 times in 3 hours". */
      readonly howOften: string;
      /** Whether each has a new time and signature; undefined where the publisher does not say. */
      readonly newlySigned?: boolean;
    }
  /** That it never does, or that nothing is known. */
  | { readonly none: string }
) & {
  /** Where that was read, if not in the source of the row. */
  readonly source?: string;
};

/** Of a publisher that may retry or not. */
export const NO_PAGE_ON_RETRIES: Retries = { none: 'we found no page on them', source: 'read 2026-11' };

/** The scheme that a row describes. Throws where the row makes no sense. */
export function publisherSpec(row: SchemeRow): PublisherSpec {
  const { name, keyForm, requestForm, handshakes } = row;
  const same = (form: RowForm) => publisherSpec({ ...shared(row), ...form });
  const spec: PublisherSpec = {
    name,
    title: row.title ?? name,
    aliases: row.aliases,
    keyIsChosen: row.keyIsChosen,
    ...signatureOf(row),
    requiresTimestamp: row.requiresTimestamp,
    eventType: publisherValue(row.eventType),
    eventId: publisherValue(row.eventId),
    eventIdSource: row.eventIdSource,
    keyForm: keyForm && { prefix: keyForm.prefix, spec: { ...same(keyForm.row), sample: sampleOf(row) } },
    requestForm: requestForm && same(requestForm),
    acceptedResponse: row.acceptedResponse,
    sample: sampleOf(row),
    source: row.source,
    certainty: row.certainty,
    unconfirmed: row.unconfirmed,
    ...row.others,
  };
  return { ...spec, handshakes: handshakes?.map((it) => ('recognises' in it ? it : handshakeOf(it, spec))) };
}

export function standardPublisher(row: StandardRow): StandardPublisher {
  const { name, aliases, standard, fixed, form, certainty } = row;
  return {
    ...{ name, title: row.title ?? name, aliases, standard, fixed, form },
    asks: Object.keys(row.asks) as (keyof WebhookInputs)[],
    eventType: publisherValue(row.eventType),
    eventId: publisherValue(row.eventId),
    handshakes: row.handshakes?.map((it) => ('recognises' in it ? it : handshakeOf(it, undefined))),
    sample: sampleOf(row),
    ...{ source: row.source, certainty, unconfirmed: row.unconfirmed },
  };
}

/** What another form takes over. */
function shared({ name, title, keyIsChosen, eventType, eventId, source, certainty }: SchemeRow) {
  return { name, eventType, eventId, source, certainty, ...(title && { title }), ...(keyIsChosen && { keyIsChosen }) };
}

function signatureOf(row: SchemeRow) {
  const { algorithm = 'sha256', encoding = 'hexLower', keyEncoding, signs: signed = '{body}' } = row;
  const names = [row.header].flat();
  const fields = names.flatMap((name) => (typeof name === 'object' ? name : name.startsWith('{') ? fieldOf(name) : []));
  const { timestampKey, ...form } = parseForm(row.form ?? '{signature}');
  const signs = typeof signed === 'string' ? parseSigned(signed) : signed;
  return {
    headers: fields.length > 0 ? [] : [familyOf(row, names.map(String)), ...(row.otherHeaders ?? [])],
    ...(fields.length > 0 && { signatureFields: fields }),
    algorithm,
    encoding,
    keyEncoding,
    ...form,
    signs,
    timestamp: timestampOf(row, signs, timestampKey),
  };
}

function familyOf(
  { timestamp, id }: SchemeRow,
  [signature = '', ...furtherSignatures]: readonly string[],
): HeaderFamily {
  return {
    signature,
    ...(furtherSignatures.length > 0 && { furtherSignatures }),
    ...(typeof timestamp === 'string' && !timestamp.startsWith('{') && { timestamp }),
    ...(id !== undefined && { deliveryId: id }),
  };
}

function timestampOf(
  { timestamp, unit = 'seconds', timestampLength: length }: SchemeRow,
  signs: readonly Part[],
  valueKey: string | undefined,
): TimestampSource | undefined {
  const form = { unit, ...(length !== undefined && { length }) };
  if (valueKey !== undefined) return { in: 'signature', valueKey, ...form };
  if (timestamp === undefined) return undefined;
  if (typeof timestamp === 'object') return { in: 'body', field: timestamp, ...form };
  if (!timestamp.startsWith('{')) return { in: 'header', ...form };
  const { path, ...field } = fieldOf(timestamp);
  const isNumber = unit === 'seconds' || unit === 'milliseconds';
  return { in: 'body', field: { path, isNumber, ...(isTimeInBodyAlone(signs) ? {} : field) }, ...form };
}

/** The member that `{field:a.b}` names. */
function fieldOf(text: string): BodyField {
  const [token, ...others] = tokensOf(text);
  const [, path] = typeof token === 'object' ? (/^field:(.+)$/.exec(token.name) ?? []) : [];
  if (path === undefined || others.length > 0) throw new TypeError(`"${text}" names no member of the body`);
  // No form has lists.
  return path.includes(EACH) ? { path: path.split('.') } : fieldAt(path);
}

function publisherValue(value: PublisherRow['eventId']): PublisherValue {
  if (typeof value === 'object' && 'none' in value) return value;
  const texts = [value].flat();
  const headers = texts.flatMap((text) => /^\{header:([^{}]+)\}$/.exec(text)?.[1] ?? []);
  if (headers.length === texts.length) return { headers };
  return { path: fieldOf(texts[0] ?? '').path };
}

function sampleOf({
  sample: body,
  sampleType: contentType = 'application/json',
  sampleHeaders: headers,
}: Pick<PublisherRow, 'sample' | 'sampleType' | 'sampleHeaders'>) {
  return body === undefined ? undefined : { body, contentType, headers };
}
