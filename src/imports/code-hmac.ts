import type { KeyEncoding, SignatureAlgorithm, SignatureEncoding } from '../model/manifest.ts';
import { headerRead, nameOf, resolved, variableRead } from './code-reads.ts';
import type { CallNode, CodeNode, CodeTree } from './code-tree.ts';

/** The one HMAC of a piece of code. What is undefined is not said, or not understood. */
export interface CodeHmac {
  readonly algorithm: SignatureAlgorithm | undefined;
  readonly encoding: SignatureEncoding | undefined;
  /** Undefined for the text of the key itself; null where something else is made of it. */
  readonly keyEncoding: KeyEncoding | undefined | null;
  /** Whether the key stands in the code. */
  readonly hasPlainKey: boolean;
  /** What is signed, one behind the other. */
  readonly signed: readonly CodeNode[];
}

interface Made {
  readonly call: CallNode;
  readonly hash: CodeNode | undefined;
  readonly key: CodeNode | undefined;
  readonly signed: readonly CodeNode[];
  readonly tree: CodeTree;
}

/** The HMAC, or what is not certain of it. */
export function findHmac(tree: CodeTree): CodeHmac | string {
  const [made, ...others] = tree.calls.flatMap((call) => madeBy(call, tree) ?? []);
  if (made === undefined) return 'how it verifies: there is no call that makes an HMAC';
  if (others.length > 0) return `which of ${others.length + 1} HMACs counts`;
  const updates = tree.calls.filter((call) => isOf(call, 'update', made));
  const { keyEncoding, hasPlainKey } = keyOf(made.key, tree);
  return {
    algorithm: algorithmOf(made.hash),
    encoding: encodingOf(made, tree),
    keyEncoding,
    hasPlainKey,
    signed: [...made.signed, ...updates.flatMap(({ given }) => given[0] ?? [])],
  };
}

function madeBy(call: CallNode, tree: CodeTree): Made | undefined {
  const name = nameOf(call.called);
  const [first, second, third] = call.given;
  if (/(?:^|\.)createHmac$/.test(name)) return { call, hash: first, key: second, signed: [], tree };
  if (/(?:^|\.)hmac\.(?:new|HMAC|digest)$/.test(name)) {
    const { key = first, msg = second, digestmod = third, digest = digestmod } = call.named;
    return { call, hash: digest, key, signed: msg === undefined || isNothing(msg) ? [] : [msg], tree };
  }
  const [, size] = /(?:^|\.)Hmac(SHA\d+)$/.exec(name) ?? [];
  if (size === undefined || first === undefined) return undefined;
  return { call, hash: { kind: 'text', text: size }, key: second, signed: [first], tree };
}

const isNothing = (node: CodeNode) => node.kind === 'name' && node.name === 'None';

/** Whether the call is this method of the HMAC, maybe behind others or by way of a variable. */
function isOf(call: CallNode, method: string, { call: origin, tree }: Made): boolean {
  const { called } = call;
  return called.kind === 'member' && called.name === method && originOf(called.of, tree) === origin;
}

/** What a chain of methods begins with. */
function originOf(node: CodeNode, tree: CodeTree): CodeNode {
  let found = resolved(node, tree);
  while (found.kind === 'call' && found.called.kind === 'member' && madeBy(found, tree) === undefined) {
    found = resolved(found.called.of, tree);
  }
  return found;
}

const ALGORITHMS: Readonly<Record<string, SignatureAlgorithm>> = {
  sha1: 'sha1',
  sha256: 'sha256',
  sha384: 'sha384',
  sha512: 'sha512',
};

function algorithmOf(hash: CodeNode | undefined): SignatureAlgorithm | undefined {
  const name = hash?.kind === 'text' ? hash.text : hash === undefined ? '' : nameOf(hash).replace(/^.*\./, '');
  return ALGORITHMS[name.toLowerCase().replaceAll('-', '')];
}

const ENCODINGS: Readonly<Record<string, SignatureEncoding>> = {
  hex: 'hexLower',
  base64: 'base64',
  base64url: 'base64Url',
  b64encode: 'base64',
  urlsafe_b64encode: 'base64Url',
  hexlify: 'hexLower',
};

function encodingOf(made: Made, tree: CodeTree): SignatureEncoding | undefined {
  const digests = tree.calls.filter((call) => isOf(call, 'digest', made));
  const said = [...digests, ...tree.calls.filter((call) => isOf(call, 'toString', made))].flatMap(
    ({ given }) => given[0] ?? [],
  );
  const found = said.flatMap(
    (node) => ENCODINGS[node.kind === 'text' ? node.text : nameOf(node).replace(/^.*\./, '').toLowerCase()] ?? [],
  );
  if (tree.calls.some((call) => isOf(call, 'hexdigest', made) || isOf(call, 'hex', made))) found.push('hexLower');
  for (const { called, given } of tree.calls) {
    const encoding = ENCODINGS[nameOf(called).replace(/^.*\./, '')];
    const [value] = given;
    if (encoding !== undefined && value !== undefined && originOf(value, tree) === made.call) found.push(encoding);
    // The signature of the header is decoded instead.
    const [, form] = given;
    const isDecoded =
      /(?:^|\.)Buffer\.from$/.test(nameOf(called)) &&
      value !== undefined &&
      headerRead(resolved(value, tree)) !== undefined;
    if (isDecoded && form?.kind === 'text' && digests.some((call) => call.given.length === 0)) {
      const decoded = ENCODINGS[form.text];
      if (decoded !== undefined) found.push(decoded);
    }
  }
  // In the library that has HmacSHA256, a text is in hex.
  if (found.length === 0 && /HmacSHA\d+$/.test(nameOf(made.call.called)) && said.length === 0) return 'hexLower';
  const [encoding, ...others] = new Set(found);
  return others.length === 0 ? encoding : undefined;
}

const PASSED_ON = /(?:^|\.)(?:encode|toString|str|String|bytes|bytearray|trim|strip)$/;

function keyOf(given: CodeNode | undefined, tree: CodeTree): Pick<CodeHmac, 'keyEncoding' | 'hasPlainKey'> {
  const node = given === undefined ? undefined : resolved(given, tree);
  if (node === undefined) return { keyEncoding: null, hasPlainKey: false };
  if (node.kind === 'text') return { keyEncoding: undefined, hasPlainKey: true };
  if (node.kind === 'name' || variableRead(node) !== undefined) return { keyEncoding: undefined, hasPlainKey: false };
  // A member that is no variable: settings, the context of a request.
  if (node.kind === 'member') return { keyEncoding: undefined, hasPlainKey: false };
  if (node.kind !== 'call') return { keyEncoding: null, hasPlainKey: false };
  const name = nameOf(node.called);
  const [first, second] = node.given;
  const decoded = decodedBy(name, second);
  if (decoded !== undefined && first !== undefined) {
    const { keyEncoding, hasPlainKey } = keyOf(first, tree);
    const isStandard = tree.texts.some((text) => /^whsec_?$/.test(text));
    const isWhole = keyEncoding === undefined;
    return { keyEncoding: decoded === 'base64' && isStandard ? 'whsec' : isWhole ? decoded : null, hasPlainKey };
  }
  const inner = /^(?:str|String|bytes|bytearray|Buffer\.from)$/.test(name)
    ? first
    : node.called.kind === 'member'
      ? node.called.of
      : undefined;
  const isText =
    /(?:^|\.)Buffer\.from$/.test(name) &&
    (second === undefined || (second.kind === 'text' && /^utf-?8$/i.test(second.text)));
  return inner !== undefined && (PASSED_ON.test(name) || isText)
    ? keyOf(inner, tree)
    : { keyEncoding: null, hasPlainKey: false };
}

function decodedBy(name: string, form: CodeNode | undefined): KeyEncoding | undefined {
  if (/(?:^|\.)(?:b64decode|atob)$/.test(name)) return 'base64';
  if (/(?:^|\.)(?:fromhex|unhexlify)$/.test(name)) return 'hex';
  if (!/(?:^|\.)Buffer\.from$/.test(name) || form?.kind !== 'text') return undefined;
  return form.text === 'base64' || form.text === 'hex' ? form.text : undefined;
}
