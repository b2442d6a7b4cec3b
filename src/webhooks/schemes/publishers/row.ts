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
 * One publisher as data: how to verify its deliveries, and the facts on its page. Defaults are what most publishers do:
 * the hex of an HMAC-SHA256 of the body, with the text of the key. docs/extending.md shows how to write a row.
 */
export interface PublisherRow {
  /** The name of the scheme in manifests: letters and digits. */
  readonly name: string;
  /** The publisher's own name, if it differs. */
  readonly title?: string;
  /** Other names of the scheme. */
  readonly aliases?: readonly string[];

  /** The header with the signature, or members of the body, as `{field:a.b}`; each of several may carry a signature. */
  readonly header: string | readonly (string | BodyField)[];
  /** The form of the header, such as `t={timestamp},v1={signature},...`: see `parseForm`. */
  readonly form?: string;
  /** The signed text, such as `{timestamp}.{body}`: see `parseSigned`; a list if a part has options. Empty for none. */
  readonly signs?: string | readonly Part[];
  readonly algorithm?: SpecAlgorithm;
  readonly encoding?: SignatureEncoding;
  readonly keyEncoding?: KeyEncoding;
  /** The receiver makes up the key and enters it at the publisher. */
  readonly keyIsChosen?: true;
  /** The header with the signed time, or a member of the body, as `{field:a.b}`. */
  readonly timestamp?: string | BodyField;
  /** Seconds by default. */
  readonly unit?: TimestampSource['unit'];
  readonly timestampLength?: number;
  readonly requiresTimestamp?: true;
  /** The header with the id, which stays the same when a delivery is sent again. */
  readonly id?: string;
  /** Other names of the same headers. */
  readonly otherHeaders?: readonly HeaderFamily[];

  /** `{header:NAME}` (of several, the first that is present) or `{field:a.b}`; or why there is none. */
  readonly eventType: string | readonly string[] | { readonly none: string };
  readonly eventId: string | readonly string[] | { readonly none: string };
  /** Source in which the publisher says that the event id is the same in each delivery of an event. */
  readonly eventIdSource?: string;
  readonly handshakes?: readonly (HandshakeForm | Handshake)[];
  readonly acceptedResponse?: AcceptedResponse;

  /** A form of the scheme for keys with a prefix, and a form for deliveries with another header. */
  readonly keyForm?: { readonly prefix: string; readonly row: RowForm };
  readonly requestForm?: RowForm;
  /** Properties that few publishers have. */
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

  /** A real event, in JSON, and further headers next to those of the signature. */
  readonly sample?: string;
  readonly sampleType?: string;
  readonly sampleHeaders?: Readonly<Record<string, string>>;

  /** The log message of the first flow, with expressions in `{}`; by default, that a delivery arrived. */
  readonly logs?: string;
  /** Steps to take at the publisher, in Markdown; `{URL}` is the trigger's URL. */
  readonly clickPath: readonly string[];
  /** The publisher's name for the key, with an article. */
  readonly keyIs?: string;
  /** What the publisher does after a failed delivery. */
  readonly retries: Retries;
  /** The tolerance in the manifest on its page; 300 by default. */
  readonly toleranceSeconds?: number;
  /** Fields of that manifest's trigger that differ from those of most publishers; null leaves out a field. */
  readonly trigger?: { readonly [Field in keyof WebhookInputs]: WebhookInputs[Field] | null } & {
    readonly webhookSlug?: string;
  };
  /** Presets with its addresses, from `src/webhooks/networks/presets.ts`. */
  readonly presets?: readonly string[];
  /** A further remark about the signature for its page. */
  readonly note?: string;
  /** Where and when these facts were read. */
  readonly source: string;
  readonly certainty: Certainty;
  /** What exactly is not confirmed. */
  readonly unconfirmed?: string;
  /** When we last looked for a signed request of the publisher without success; set if no test has a known answer. */
  readonly noVector?: string;
}

/** The part of a row that describes its scheme. */
type SchemeRow = Omit<PublisherRow, 'clickPath' | 'retries'>;

/** Another form of the same scheme; it has only the differences. */
type RowForm = Partial<PublisherRow> & Pick<PublisherRow, 'header'>;

/** Facts on a publisher's page, regardless of how it signs. */
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
    /** Fields that each trigger must set, with the values on the publisher's page; `{URL}` is the trigger's URL. */
    readonly asks: Readonly<Partial<Record<keyof WebhookInputs, string>>>;
  };

type Retries = (
  | {
      /** When it retries, such as "if the answer is no 2xx or takes more than 5 seconds". */
      readonly when: string;
      /** How often it retries, such as "5 times in 3 hours". */
      readonly howOften: string;
      /** Whether each retry has a new time and signature; undefined if the publisher does not say. */
      readonly newlySigned?: boolean;
    }
  /** Says that it never retries, or that nothing is known. */
  | { readonly none: string }
) & {
  /** Where this was read, if not in the source of the row. */
  readonly source?: string;
};

/** For a publisher of which it is not known whether it retries. */
export const NO_PAGE_ON_RETRIES: Retries = { none: 'we found no page on them', source: 'read 2026-11' };

/** The scheme that a row describes. Throws if the row makes no sense. */
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

/** The fields of a row that its other forms share. */
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
  // Forms have no lists.
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
