import { HEADER_NAME } from '../../model/delivery.ts';
import { type BodyField, type MultiValue, type Part, part, type SignatureSpec } from './spec.ts';

/** A text that does not describe a signature; the message is for its author. */
export class NotationError extends Error {}

/** Names in braces without an argument. `form` and `key` are for built-in publishers; manifests do not use them. */
const PARTS: Readonly<Record<string, Part>> = {
  body: part.body,
  timestamp: part.timestamp,
  id: part.deliveryId,
  method: part.method,
  url: part.url,
  path: part.path,
  target: part.target,
  host: part.host,
  form: part.sortedForm,
  key: part.keyName,
};

/** Names in braces that take an argument after a colon. */
const NAMED_PARTS: Readonly<Record<string, (name: string) => Part | undefined>> = {
  header: (name) => (HEADER_NAME.test(name) ? part.header(name.toLowerCase()) : undefined),
  query: (name) => part.query(name),
  field: (name) => ({ part: 'field', field: fieldAt(name) }),
  sha256: (name) => (name === 'body' ? part.bodyHash : name === 'body:base64' ? part.bodyHashBase64 : undefined),
  crc32: (name) => (name === 'body' ? part.checksum : undefined),
};

const ACCEPTED =
  '{body}, {timestamp}, {id}, {method}, {url}, {path}, {target}, {host}, {query:NAME}, {header:NAME}, {field:PATH}, {sha256:body} and {sha256:body:base64} are accepted, and {{ and }} for braces';

/** A member of the body by its path, with dots between names; in a form, the field with the whole text as its name. */
export function fieldAt(path: string): BodyField {
  return { path: path.split('.'), formField: path };
}

/** What is signed, such as `{timestamp}.{body}`: literal text and parts of the delivery in braces. */
export function parseSigned(text: string): readonly Part[] {
  const signs: Part[] = [];
  let literal = '';
  for (const token of tokensOf(text)) {
    if (typeof token === 'string') {
      literal += token;
      continue;
    }
    if (literal !== '') signs.push(literal);
    literal = '';
    signs.push(partNamed(token.name));
  }
  return literal === '' ? signs : [...signs, literal];
}

function partNamed(name: string): Part {
  const [kind = '', ...rest] = name.split(':');
  const argument = rest.join(':');
  const found = rest.length === 0 ? own(PARTS, kind) : argument && own(NAMED_PARTS, kind)?.(argument);
  if (found === undefined || found === '') throw new NotationError(`does not know {${name}}; ${ACCEPTED}`);
  return found;
}

function own<Value>(record: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

/** Literal texts, and names in braces. */
export function tokensOf(text: string): (string | { readonly name: string })[] {
  const found = text.match(/\{\{|\}\}|\{[^{}]*\}|[^{}]+|./gs) ?? [];
  return found.map((token) => {
    if (token === '{{' || token === '}}') return token.slice(1);
    if (token === '{' || token === '}')
      throw new NotationError('has a brace without its other one; write {{ or }} for a brace');
    return token.startsWith('{') ? { name: token.slice(1, -1) } : token;
  });
}

type HeaderForm = Pick<SignatureSpec, 'prefix' | 'headerValuePrefix' | 'multiValue'> & {
  /** The key, or the place, of the segment that holds the timestamp. */
  readonly timestampKey: string | undefined;
};

const SIGNATURE = 'signature';
const PLACES = [SIGNATURE, 'timestamp', '*'];

/**
 * How a header carries signatures, such as `sha256={signature}` or `t={timestamp},v1={signature},...`. Three dots allow
 * any number of repetitions of the last segment; or of the whole list, if the text before the dots is not that between
 * segments. Segments are identified by keys or by their places; `{*}` is a segment that is not read.
 */
export function parseForm(text: string): HeaderForm {
  const tokens = tokensOf(text);
  const names = tokens.flatMap((token) => (typeof token === 'string' ? [] : [token.name]));
  const unknown = names.find((name) => !PLACES.includes(name));
  if (unknown !== undefined) {
    throw new NotationError(`does not know {${unknown}}; {signature}, {timestamp} and {*} are accepted`);
  }
  if (!names.includes(SIGNATURE)) throw new NotationError('has no {signature}');
  const gaps = gapsOf(tokens);
  const last = gaps.at(-1) ?? '';
  const isRepeated = last.endsWith('...');
  if (names.length === 1 && !isRepeated) return singleForm(gaps);
  if (last !== '' && !isRepeated) throw new NotationError(`ends with "${last}"; only ... may follow the last segment`);
  return listForm(names, { gaps: gaps.slice(0, -1), end: last.slice(0, -'...'.length), isRepeated });
}

/** The texts before, between and after the names in braces. */
function gapsOf(tokens: ReturnType<typeof tokensOf>): string[] {
  const gaps = [''];
  for (const token of tokens) {
    if (typeof token === 'string') gaps.push(`${gaps.pop()}${token}`);
    else gaps.push('');
  }
  return gaps;
}

/** A word and a space in front are an authentication scheme, which may be in any case. */
function singleForm([before = '', after = '']: readonly string[]): HeaderForm {
  if (after !== '') throw new NotationError(`ends with "${after}"; nothing may follow a single {signature}`);
  const isScheme = before.endsWith(' ');
  return {
    prefix: isScheme || before === '' ? undefined : before,
    headerValuePrefix: isScheme ? before : undefined,
    multiValue: undefined,
    timestampKey: undefined,
  };
}

// A key has no spaces, and no characters that could separate it from its value.
const SEGMENT_START = /^(?<rest>[\s\S]*?)(?:(?<key>[\w.-]+)(?<separator>[^\w\s.-]+\s*))?$/;

function listForm(
  names: readonly string[],
  { gaps, end, isRepeated }: { gaps: readonly string[]; end: string; isRepeated: boolean },
): HeaderForm {
  const starts = gaps.map((gap) => SEGMENT_START.exec(gap)?.groups ?? {});
  const [headerValuePrefix = '', ...between] = starts.map(({ rest = '' }) => rest);
  const [delimiter = isRepeated ? end : '', ...others] = new Set(between);
  const setDelimiter = isRepeated && end !== delimiter ? end : undefined;
  if (setDelimiter === '') throw new NotationError('has no delimiter in front of ...');
  if (delimiter === '' || others.length > 0) throw new NotationError('has no one delimiter between its segments');
  if (headerValuePrefix !== '' && !headerValuePrefix.endsWith(' ')) {
    throw new NotationError(
      `begins with "${headerValuePrefix}"; only a word and a space may be in front of the segments`,
    );
  }
  const separators = new Set(starts.map(({ separator }) => separator));
  if (separators.size > 1) throw new NotationError('has segments with keys and others, or with several separators');
  const [keyValueSeparator] = separators;
  const keyAt = (at: number) => starts[at]?.key ?? String(at);
  const keysOf = (wanted: string) => names.flatMap((name, at) => (name === wanted ? [keyAt(at)] : []));
  const valueKeys = [...new Set(keysOf(SIGNATURE))];
  const [timestampKey, ...more] = keysOf('timestamp');
  if (more.length > 0) throw new NotationError('has several {timestamp}');
  if (isRepeated && names.at(-1) !== SIGNATURE) throw new NotationError('repeats what is no {signature}');
  return {
    prefix: undefined,
    headerValuePrefix: headerValuePrefix || undefined,
    multiValue: {
      delimiter,
      keyValueSeparator,
      ...(setDelimiter !== undefined && { setDelimiter }),
      valueKeys,
      acceptsMultiple: isRepeated || valueKeys.length > 1,
      isTrimmed: delimiter.trim() !== '' && delimiter.trim() !== delimiter,
    } satisfies MultiValue,
    timestampKey,
  };
}
