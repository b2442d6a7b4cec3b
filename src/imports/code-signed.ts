import type { WebhookInputs } from '../manifest/webhook-inputs.ts';
import { headerRead, nameOf, type ReadHeader, resolved } from './code-reads.ts';
import type { CodeNode, CodeTree } from './code-tree.ts';

/** What a piece of code signs, in the words of `webhookSignedPayload`. */
interface SignedText {
  /** Undefined where it is not certain. */
  readonly text: string | undefined;
  /** The headers that are part of it. */
  readonly inputs: WebhookInputs;
  readonly isTimed: boolean;
  readonly notes: readonly string[];
  readonly unsure: readonly string[];
}

interface Known {
  readonly tree: CodeTree;
  readonly headers: readonly ReadHeader[];
  readonly hasTimeInForm: boolean;
}

/** One part of it; `unsure` says which was not understood. */
type Piece =
  | { readonly literal: string }
  | { readonly part: string; readonly inputs?: WebhookInputs; readonly note?: string }
  | { readonly unsure: string };

export function signedTextOf(signed: readonly CodeNode[], known: Known): SignedText {
  const pieces = signed.flatMap((node) => piecesOf(node, known));
  const unsure = pieces.flatMap((piece) => ('unsure' in piece ? piece.unsure : []));
  if (pieces.length === 0) unsure.push('what is signed');
  else if (unsure.length === 0 && !pieces.some((piece) => 'part' in piece && piece.part === '{body}'))
    unsure.push('whether the body is signed');
  const parts = pieces.flatMap((piece) => ('part' in piece ? piece : []));
  const text = pieces.map((piece) =>
    'literal' in piece ? piece.literal.replace(/[{}]/g, '$&$&') : 'part' in piece ? piece.part : '',
  );
  return {
    text: unsure.length === 0 ? text.join('') : undefined,
    inputs: Object.assign({}, ...parts.map(({ inputs }) => inputs ?? {})) as WebhookInputs,
    isTimed: parts.some(({ part }) => part === '{timestamp}'),
    notes: [...new Set(parts.flatMap(({ note }) => note ?? []))],
    unsure: [...new Set(unsure)],
  };
}

const MOST_LEVELS = 20;

/** What publishers put between the parts is short, such as `v0:`; a longer text may be one that nobody else knows. */
const LONGEST_LITERAL = 8;

/** What passes on the text that it is given. */
const PASSED_ON = /(?:^|\.)(?:String|str|bytes|bytearray|Buffer\.from|Uint8Array)$/;
const PASSED_ON_BY = /^(?:toString|encode|decode|trim|strip)$/;

function piecesOf(given: CodeNode, known: Known, level = 0): Piece[] {
  if (level > MOST_LEVELS) return [{ unsure: 'what is signed' }];
  const within = (node: CodeNode) => piecesOf(node, known, level + 1);
  const header = headerRead(given);
  if (header !== undefined) return [ofHeader(header)];
  switch (given.kind) {
    case 'text':
      if (given.text.length > LONGEST_LITERAL)
        return [{ unsure: 'whether a text in the code that is signed is a secret' }];
      return given.text === '' ? [] : [{ literal: given.text }];
    case 'joined':
    case 'list':
      return given.items.flatMap(within);
    case 'name': {
      if (/secret|key|token|salt|pass/i.test(given.name)) return [{ unsure: `why "${given.name}" is signed` }];
      const value = resolved(given, known.tree);
      const named = ofName(given.name, known);
      // What something is called says more than how it was got, unless that is a text or a header.
      const isSaid = value.kind === 'joined' || value.kind === 'text' || headerRead(value) !== undefined;
      if (named !== undefined && !isSaid) return [rewritten(value, named)];
      if (value.kind === 'name') return [named ?? { unsure: `what "${given.name}" is, which is signed` }];
      return within(value);
    }
    case 'member':
      return [ofName(given.name, known) ?? { unsure: `what "${nameOf(given)}" is, which is signed` }];
    case 'call':
      return ofCall(given, within, known);
    default:
      return [{ unsure: 'what is signed' }];
  }
}

function ofCall(
  { called, given }: CodeNode & { readonly kind: 'call' },
  within: (node: CodeNode) => Piece[],
  known: Known,
): Piece[] {
  const name = nameOf(called);
  const [first] = given;
  if (/(?:^|\.)(?:JSON\.stringify|json\.dumps|dumps)$/.test(name) && first !== undefined)
    return within(first).map((piece) =>
      'part' in piece && piece.part === '{body}' ? { ...piece, note: WRITTEN_AGAIN } : piece,
    );
  if (/(?:^|\.)Buffer\.concat$/.test(name) && first?.kind === 'list') return within(first);
  if (PASSED_ON.test(name) && first !== undefined) return within(first);
  if (called.kind !== 'member')
    return [ofName(name, known) ?? { unsure: `what ${name || 'a call'}() gives, which is signed` }];
  const { of, name: method } = called;
  if (method === 'join') {
    const [list, between] = of.kind === 'list' ? [of, first] : [first, of];
    if (list?.kind === 'list' && between?.kind === 'text') {
      return list.items.flatMap((item, index) => [
        ...(index === 0 || between.text === '' ? [] : [{ literal: between.text }]),
        ...within(item),
      ]);
    }
  }
  if (PASSED_ON_BY.test(method)) return within(of);
  if (method === 'encode' || (method === 'from' && first !== undefined)) return within(first ?? of);
  return [ofName(method, known) ?? { unsure: `what ${name}() gives, which is signed` }];
}

const WRITTEN_AGAIN = 'the code signs the body as JSON that it wrote itself; Sluice takes the bytes as they were sent';

/** A body that was parsed and written again, by way of a variable. */
function rewritten(value: CodeNode, piece: Piece): Piece {
  const isWritten = value.kind === 'call' && /(?:^|\.)(?:JSON\.stringify|json\.dumps)$/.test(nameOf(value.called));
  return isWritten && 'part' in piece && piece.part === '{body}' ? { ...piece, note: WRITTEN_AGAIN } : piece;
}

function ofHeader({ name, is }: ReadHeader): Piece {
  if (is === 'timestamp') return { part: '{timestamp}', inputs: { webhookTimestampHeader: name } };
  if (is === 'id') return { part: '{id}', inputs: { webhookDeliveryIdHeader: name, webhookNonceHeader: name } };
  return is === 'other' ? { part: `{header:${name}}` } : { unsure: `why the header ${name} is signed` };
}

const BODIES =
  /^(?:raw_?|request_?|req_?|webhook_?)?(?:body|payload|data|raw|content|message|buf|buffer|text|get_data|bytes)(?:_?(?:raw|bytes|text|string|str|buffer))?$/i;

/** By what it is called. */
function ofName(name: string, { headers, hasTimeInForm }: Known): Piece | undefined {
  if (/^(?:t|ts|time|time_?stamp|(?:webhook|request|signature|sig)_?(?:ts|time_?stamp))$/i.test(name)) {
    const [time, ...others] = headers.filter(({ is }) => is === 'timestamp');
    if (hasTimeInForm) return { part: '{timestamp}' };
    if (time !== undefined && others.length === 0) return ofHeader(time);
    return { unsure: 'where the time is that is signed' };
  }
  if (BODIES.test(name)) return { part: '{body}' };
  if (/^(?:id|(?:webhook|msg|message|event|delivery|request)_?id)$/i.test(name)) {
    const [id, ...others] = headers.filter(({ is }) => is === 'id');
    return id !== undefined && others.length === 0 ? ofHeader(id) : { unsure: 'where the id is that is signed' };
  }
  return undefined;
}
