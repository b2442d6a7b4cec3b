import type { InnerList, Item, Parameters } from 'structured-headers';
import { headerOf } from '../values.ts';
import type { StandardRequest } from './standard.ts';

/** The parser of structured fields (RFC 9651), loaded for the first message. */
export type Fields = typeof import('structured-headers');

/** A part of a message that a signature of RFC 9421 may cover. */
export interface Component {
  readonly name: string;
  /** The component's own parameters, such as `name` for a query parameter. */
  readonly own: Parameters;
  /** Name and parameters in signed form. */
  readonly id: string;
}

/** A component that the message does not have, or that no request has. */
export class ComponentError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ComponentError';
  }
}

type Message = Pick<StandardRequest, 'delivery' | 'publicUrl'>;

export interface BaseInput {
  readonly input: InnerList;
  readonly fields: Fields;
  readonly request: Message;
}

/** The bytes that are signed: RFC 9421, section 2.5. Throws `ComponentError`. */
export function signatureBase(components: readonly Component[], { input, fields, request }: BaseInput): Buffer {
  const lines = linesOf(components, { fields, request });
  const last = `"@signature-params": ${fields.serializeInnerList(input)}`;
  // Each character of a header is one byte, as on the wire.
  return Buffer.from([...lines, last].join('\n'), 'latin1');
}

/** The signed lines of components in a message. Throws `ComponentError`. */
export function linesOf(components: readonly Component[], { fields, request }: Omit<BaseInput, 'input'>): string[] {
  return components.map((component) => `${component.id}: ${componentValue(component, fields, request)}`);
}

/** The value of a component in a message: RFC 9421, section 2. */
function componentValue(component: Component, fields: Fields, message: Message): string {
  return component.name.startsWith('@') ? derivedValue(component, message) : fieldValue(component, fields, message);
}

function derivedValue({ name, own, id }: Component, { delivery, publicUrl }: Message): string {
  const url = new URL(publicUrl);
  if (name === '@query-param') return queryValue({ own, id }, url);
  if (own.size > 0) throw new ComponentError(`${id} is nothing that a request has`);
  switch (name) {
    case '@method':
      return delivery.method;
    case '@target-uri':
      return publicUrl.split('#', 1).join('');
    case '@authority':
      return url.host;
    case '@scheme':
      return url.protocol.slice(0, -1);
    case '@request-target':
      return `${url.pathname}${url.search}`;
    case '@path':
      return url.pathname;
    case '@query':
      return url.search === '' ? '?' : url.search;
    default:
      throw new ComponentError(`${id} is nothing that a request has`);
  }
}

/** Refuses a parameter that occurs several times: any of its values could be the signed one. */
function queryValue({ own, id }: Pick<Component, 'own' | 'id'>, url: URL): string {
  const name = own.get('name');
  const wanted = typeof name === 'string' && own.size === 1 ? name : undefined;
  const values = [...url.searchParams].filter(([each]) => encodeQuery(each) === wanted).map(([, value]) => value);
  if (values.length !== 1) throw new ComponentError(`the query does not have ${id} exactly once`);
  return encodeQuery(values[0] ?? '');
}

/** Percent-encoded as the query of a form, but with %20 for a space: RFC 9421, section 2.2.8. */
function encodeQuery(text: string): string {
  return encodeURIComponent(text).replace(/[!'()~]/g, (found) => `%${found.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** Lines with the same name are joined already and cannot be separated again. */
function fieldValue({ name, own, id }: Component, fields: Fields, { delivery: { headers } }: Message): string {
  const value = name === name.toLowerCase() ? headerOf(headers, name)?.trim() : undefined;
  if (value === undefined) throw new ComponentError(`the header ${id}, which is signed, is absent`);
  if (own.size === 0) return value;
  const [[parameter, argument] = []] = own;
  if (own.size > 1 || (parameter !== 'key' && parameter !== 'sf')) {
    throw new ComponentError(`${id} is a form of a header that is not supported`);
  }
  const members = dictionaryOf(value, fields, id);
  if (parameter === 'sf') return fields.serializeDictionary(members);
  const member = typeof argument === 'string' ? members.get(argument) : undefined;
  if (member === undefined) throw new ComponentError(`the header ${id}, which is signed, has no such member`);
  return isInnerList(member) ? fields.serializeInnerList(member) : fields.serializeItem(member);
}

/** Only dictionaries are supported: nothing says which other form of structured field a header has. */
function dictionaryOf(value: string, { parseDictionary }: Fields, id: string) {
  try {
    return parseDictionary(value);
  } catch {
    throw new ComponentError(`the header ${id} is no dictionary of structured fields`);
  }
}

function isInnerList(member: Item | InnerList): member is InnerList {
  return Array.isArray(member[0]);
}
