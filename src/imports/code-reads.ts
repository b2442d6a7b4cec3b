import type { CallNode, CodeNode, CodeTree } from './code-tree.ts';

/** `req.headers.get` of what is called or read; empty where it begins with something else than a name. */
export function nameOf(node: CodeNode): string {
  if (node.kind === 'name') return node.name;
  if (node.kind === 'call') return nameOf(node.called);
  if (node.kind !== 'member') return '';
  const of = nameOf(node.of);
  return of === '' ? node.name : `${of}.${node.name}`;
}

const MOST_STEPS = 20;

/** What a name was given, if the code says so. */
export function resolved(node: CodeNode, { assigned }: CodeTree): CodeNode {
  let found = node;
  for (let step = 0; step < MOST_STEPS && found.kind === 'name'; step += 1) {
    const next = assigned.get(found.name);
    if (next === undefined) return found;
    found = next;
  }
  return found;
}

export interface ReadHeader {
  readonly name: string;
  readonly is: 'signature' | 'timestamp' | 'id' | 'other';
}

/** The header that a call or a member reads. */
export function headerRead(node: CodeNode): ReadHeader | undefined {
  const name = headerNameOf(node);
  if (name === undefined || !/^[A-Za-z][\w-]*$/.test(name)) return undefined;
  return { name, is: kindOf(name) };
}

function headerNameOf(node: CodeNode): string | undefined {
  if (node.kind === 'member') return isHeaders(node.of) ? djangoName(node.name) : undefined;
  if (node.kind !== 'call' || node.called.kind !== 'member') return undefined;
  const { of, name } = node.called;
  const [first] = node.given;
  if (first?.kind !== 'text') return undefined;
  if (/^(?:header|getHeader|get_header)$/.test(name)) return first.text;
  // Express has `req.get`; what else has a `get` is a map.
  const isGet = name === 'get' && (isHeaders(of) || /(?:^|\.)req(?:uest)?$/.test(nameOf(of)));
  return isGet ? djangoName(first.text) : undefined;
}

const isHeaders = (node: CodeNode) => /(?:^|\.)(?:headers|META)$/.test(nameOf(node));

/** Django has `HTTP_X_SIGNATURE`. */
function djangoName(name: string): string | undefined {
  if (name === 'get') return undefined;
  const [, django] = /^HTTP_([A-Z0-9_]+)$/.exec(name) ?? [];
  return django?.toLowerCase().replaceAll('_', '-') ?? name;
}

function kindOf(header: string): ReadHeader['is'] {
  const name = header.toLowerCase();
  if (/time|(?:^|-)ts$|date/.test(name)) return 'timestamp';
  if (/(?:^|[-_])(?:id|nonce)$|delivery/.test(name)) return 'id';
  return /sig|hmac|hash|digest|hub-/.test(name) ? 'signature' : 'other';
}

/** Every header that the code reads, once. */
export function headersIn({ calls, members }: CodeTree): ReadHeader[] {
  const found = [...calls, ...members].flatMap((node) => headerRead(node) ?? []);
  const byName = new Map(found.map((header) => [header.name.toLowerCase(), header]));
  return [...byName.values()];
}

const ENVIRONMENTS = /^(?:process\.env|import\.meta\.env|Bun\.env|os\.environ|env)$/;
const READERS = /^(?:os\.environ\.get|os\.getenv|getenv|Deno\.env\.get|environ\.get)$/;

/** The variable of the environment that a node reads. */
export function variableRead(node: CodeNode): string | undefined {
  if (node.kind === 'member')
    return ENVIRONMENTS.test(nameOf(node.of)) && node.name !== 'get' ? asVariable(node.name) : undefined;
  if (node.kind !== 'call' || !READERS.test(nameOf(node.called))) return undefined;
  const [name] = node.given;
  return name?.kind === 'text' ? asVariable(name.text) : undefined;
}

const asVariable = (name: string) => (/^[A-Za-z_]\w*$/.test(name) ? name : undefined);

/** The one variable that may be a key. */
export function keyVariableIn({ calls, members }: CodeTree): string | undefined {
  const variables = new Set([...calls, ...members].flatMap((node: CallNode | CodeNode) => variableRead(node) ?? []));
  const [variable, ...others] = [...variables].filter((name) => /secret|key|token|hmac|sig/i.test(name));
  return others.length === 0 ? variable : undefined;
}
