/**
 * Code in JavaScript, TypeScript or Python, read as far as it takes to see what is called with what. It is never run, and what is not
 * understood is left out: whoever reads the tree has to find all that they need in it.
 */
export interface CodeTree {
  /** Every call, in the order of the text; calls in the arguments come first. */
  readonly calls: readonly CallNode[];
  /** What a name was given, by the name; the first time alone. */
  readonly assigned: ReadonlyMap<string, CodeNode>;
  /** Every text that stands by itself. */
  readonly texts: readonly string[];
  /** Every member or index that is read, in the order of the text. */
  readonly members: readonly MemberNode[];
  /** Every joined text. */
  readonly joined: readonly JoinedNode[];
}

export type CodeNode =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'name'; readonly name: string }
  | MemberNode
  | CallNode
  | JoinedNode
  | { readonly kind: 'list'; readonly items: readonly CodeNode[] }
  | { readonly kind: 'other' };

/** `a.b`, and `a['b']` likewise. */
export interface MemberNode {
  readonly kind: 'member';
  readonly of: CodeNode;
  readonly name: string;
}

export interface CallNode {
  readonly kind: 'call';
  readonly called: CodeNode;
  readonly given: readonly CodeNode[];
  /** Arguments by name, as Python has them. */
  readonly named: Readonly<Record<string, CodeNode>>;
}

/** Texts behind each other: `a + b`, a template, an f-string. */
export interface JoinedNode {
  readonly kind: 'joined';
  readonly items: readonly CodeNode[];
}

/** Code that nests deeper was made to be expensive. */
const MOST_LEVELS = 100;

export function readCode(text: string): CodeTree {
  const reader = new Reader(tokensOf(text, isPython(text)));
  reader.block(undefined);
  return reader.tree;
}

const isPython = (text: string) =>
  /^[ \t]*(?:import \w|from [\w.]+ import|(?:async )?def )/m.test(text) && !/=>|;\s*$/m.test(text);

type Token =
  | { readonly kind: 'word' | 'sign' | 'number'; readonly text: string }
  | { readonly kind: 'text'; readonly parts: readonly (string | readonly Token[])[] }
  | { readonly kind: 'line' };

const SIGNS = /^(?:===|!==|\*\*=|>>>|=>|==|!=|>=|<=|&&|\|\||\?\?|\?\.|\+=|:=|\*\*|[^\s\w])/;

function tokensOf(text: string, isPythonText: boolean, level = 0): Token[] {
  if (level > MOST_LEVELS) return [];
  const tokens: Token[] = [];
  const comment = isPythonText ? /#[^\n]*/y : /\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/y;
  let at = 0;
  const take = (pattern: RegExp): RegExpExecArray | undefined => {
    pattern.lastIndex = at;
    const found = pattern.exec(text) ?? undefined;
    at += found?.[0].length ?? 0;
    return found;
  };
  while (at < text.length) {
    if (take(/\n\s*/y)) {
      // One stands for several: a reader looks beyond it.
      if (tokens.at(-1)?.kind !== 'line') tokens.push({ kind: 'line' });
    } else if (take(/[^\S\n]+/y) || take(comment)) continue;
    else {
      const quote = take(/((?:[rbfu]|rb|br|fr|rf)?)("""|'''|["'`])/iy);
      if (quote !== undefined) {
        const [, prefix = '', mark = ''] = quote;
        const [parts, length] = textAt(text.slice(at), mark);
        at += length;
        const isTemplate = mark === '`' || /f/i.test(prefix);
        const read = (inner: string) => tokensOf(inner, isPythonText, level + 1);
        tokens.push({ kind: 'text', parts: isTemplate ? filled(parts, mark, read) : [unescaped(parts)] });
        continue;
      }
      const word = take(/[\p{L}_$][\p{L}\p{N}_$]*/uy);
      const number = word === undefined ? take(/\d[\d_.]*/y) : undefined;
      if (word !== undefined) tokens.push({ kind: 'word', text: word[0] });
      else if (number !== undefined) tokens.push({ kind: 'number', text: number[0] });
      else {
        const [sign = text.charAt(at)] = SIGNS.exec(text.slice(at, at + 3)) ?? [];
        at += sign.length;
        tokens.push({ kind: 'sign', text: sign });
      }
    }
  }
  return tokens;
}

/** The text up to the closing mark, and how long it is with it. One in simple quotes ends with its line at the latest. */
function textAt(rest: string, mark: string): [text: string, length: number] {
  for (let at = 0; at < rest.length; at += 1) {
    if (rest[at] === '\\') at += 1;
    else if (rest.startsWith(mark, at)) return [rest.slice(0, at), at + mark.length];
    else if (rest[at] === '\n' && (mark === '"' || mark === "'")) return [rest.slice(0, at), at];
  }
  return [rest, rest.length];
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', '0': '\0' };

const unescaped = (text: string) =>
  text.replace(/\\([\s\S])/g, (_, character: string) => ESCAPES[character] ?? character);

/** The texts of a template and what is put between them. */
function filled(text: string, mark: string, read: (inner: string) => readonly Token[]): (string | readonly Token[])[] {
  const place = mark === '`' ? /\$\{([^{}]*)\}/ : /\{\{|\}\}|\{([^{}]*)\}/;
  return text.split(new RegExp(`(${place.source})`)).flatMap((piece, index): (string | readonly Token[])[] => {
    // Each place is found twice: with its braces and without.
    if (index % 3 === 0) return piece === '' ? [] : [unescaped(piece)];
    if (index % 3 === 1) return piece === '{{' || piece === '}}' ? [piece.slice(1)] : [];
    return piece === undefined ? [] : [read(piece.replace(/(?:![rsa])?(?::[^'"\])]*)?$/, ''))];
  });
}

const OPENING: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' };

/** What stands between two values and makes of both something else than a joined text: what is in front counts. */
const BETWEEN = new Set(['??', '||', 'or']);

class Reader {
  readonly #tokens: readonly Token[];
  #at = 0;
  /** Lines end nothing within round or square brackets. */
  #inBrackets = false;
  #level = 0;
  readonly #calls: CallNode[] = [];
  readonly #assigned = new Map<string, CodeNode>();
  readonly #texts: string[] = [];
  readonly #members: MemberNode[] = [];
  readonly #joined: JoinedNode[] = [];

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  get tree(): CodeTree {
    const { texts, members, joined } = { texts: this.#texts, members: this.#members, joined: this.#joined };
    return { calls: this.#calls, assigned: this.#assigned, texts, members, joined };
  }

  /** Statements up to the sign, which is taken too, or to the end. */
  block(end: string | undefined): void {
    const before = this.#inBrackets;
    this.#inBrackets = false;
    while (this.#at < this.#tokens.length && !(end !== undefined && this.#isSign(end))) this.#statement();
    this.#at += 1;
    this.#inBrackets = before;
  }

  #statement(): void {
    const start = this.#at;
    const name = this.#wordAt(start);
    if (name !== undefined && this.#isSign('=', start + 1)) {
      this.#at = start + 2;
      this.#assign(name, this.#value());
    } else if (
      name !== undefined &&
      this.#isSign(':', start + 1) &&
      /^(?:const|let|var)$/.test(this.#wordAt(start - 1) ?? '')
    ) {
      // The type of a variable.
      this.#at = start + 1;
      while (this.#at < this.#tokens.length && !this.#isSign('=') && this.#tokens[this.#at]?.kind !== 'line')
        this.#at += 1;
      if (this.#isSign('=')) {
        this.#at += 1;
        this.#assign(name, this.#value());
      }
    } else this.#value();
    // Whatever that was, it is over.
    if (this.#at === start) this.#at += 1;
  }

  #assign(name: string, value: CodeNode): void {
    const next = this.#tokens[this.#here()];
    // A value that is compared, or one of two, is not what it begins with.
    const isMore = next?.kind === 'sign' ? !/^[;,)\]}{]$/.test(next.text) : this.#wordAt(this.#here()) === 'if';
    const isOnLine = next !== undefined && next.kind !== 'line';
    if (!this.#assigned.has(name)) this.#assigned.set(name, isMore && isOnLine ? { kind: 'other' } : value);
  }

  /** One value with what is joined to it. */
  #value(): CodeNode {
    this.#level += 1;
    const items = this.#level > MOST_LEVELS ? [] : [this.#single()];
    while (items.length > 0) {
      if (this.#isSign('+') && this.#skip()) items.push(this.#single());
      else if (this.#isSign('%') && items.length === 1 && items[0]?.kind === 'text') {
        this.#skip();
        const given = this.#single();
        this.#level -= 1;
        return this.#join(formatted(items[0], given.kind === 'list' ? given.items : [given], '%s'));
      } else if (this.#isBetween()) {
        this.#skip();
        this.#value();
      } else break;
    }
    this.#level -= 1;
    if (items.length === 0) this.#at += 1;
    return items.length > 1 ? this.#join(items) : (items[0] ?? { kind: 'other' });
  }

  #join(items: readonly CodeNode[]): JoinedNode {
    const node: JoinedNode = { kind: 'joined', items };
    this.#joined.push(node);
    return node;
  }

  #single(): CodeNode {
    let node = this.#start();
    for (let links = 0; ; links += 1) {
      if (links > MOST_LEVELS) node = { kind: 'other' };
      if ((this.#isSign('.') || this.#isSign('?.')) && this.#wordAt(this.#next(1)) !== undefined) {
        this.#skip();
        node = this.#member(node, this.#word());
      } else if (this.#isSign('?.') || (this.#isSign('!') && node.kind !== 'other')) this.#skip();
      else if (this.#isSign('(')) node = this.#call(node);
      else if (this.#isSign('[') && node.kind !== 'other') {
        const [index] = this.#list();
        if (index?.kind === 'text') node = this.#member(node, index.text);
      } else if (this.#wordAt(this.#here()) === 'as' && this.#wordAt(this.#next(1)) !== undefined) {
        this.#skip();
        this.#word();
      } else return node;
    }
  }

  #start(): CodeNode {
    while (/^(?:await|new|return|not)$/.test(this.#wordAt(this.#here()) ?? '')) this.#skip();
    const token = this.#tokens[this.#here()];
    if (token === undefined || token.kind === 'line') return { kind: 'other' };
    if (token.kind === 'sign' && token.text === '{') {
      this.#skip();
      this.block('}');
      return { kind: 'other' };
    }
    if (token.kind === 'sign' && (token.text === '(' || token.text === '[')) {
      const items = this.#list();
      return token.text === '(' && items.length === 1 ? (items[0] ?? { kind: 'other' }) : { kind: 'list', items };
    }
    if (token.kind === 'sign' && OPENING_OF.has(token.text)) return { kind: 'other' };
    this.#skip();
    if (token.kind === 'text') return this.#text(token.parts);
    if (token.kind !== 'word') return { kind: 'other' };
    return { kind: 'name', name: token.text };
  }

  #text(parts: readonly (string | readonly Token[])[]): CodeNode {
    const items = parts.map((part): CodeNode => {
      if (typeof part === 'string') return { kind: 'text', text: part };
      return this.#within(part);
    });
    for (const item of items) if (item.kind === 'text') this.#texts.push(item.text);
    const [only = { kind: 'text', text: '' } as const] = items;
    return items.length > 1 ? this.#join(items) : only;
  }

  /** What is put into a template. */
  #within(tokens: readonly Token[]): CodeNode {
    const reader = new Reader(tokens);
    const node = reader.#value();
    this.#calls.push(...reader.#calls);
    this.#members.push(...reader.#members);
    this.#joined.push(...reader.#joined);
    return node;
  }

  #member(of: CodeNode, name: string): MemberNode {
    const node: MemberNode = { kind: 'member', of, name };
    this.#members.push(node);
    return node;
  }

  #call(called: CodeNode): CodeNode {
    const named: Record<string, CodeNode> = {};
    const given = this.#list(named);
    if (called.kind === 'member' && called.name === 'format' && called.of.kind === 'text')
      return this.#join(formatted(called.of, given, '{}'));
    const node: CallNode = { kind: 'call', called, given, named };
    this.#calls.push(node);
    return node;
  }

  /** Values between brackets, the first of which is next. */
  #list(named: Record<string, CodeNode> = {}): CodeNode[] {
    const opening = this.#tokens[this.#here()];
    const end = opening?.kind === 'sign' ? (OPENING[opening.text] ?? ')') : ')';
    this.#skip();
    const before = this.#inBrackets;
    this.#inBrackets = true;
    const items: CodeNode[] = [];
    while (this.#here() < this.#tokens.length && !this.#isSign(end)) {
      const start = this.#here();
      const name = this.#wordAt(start);
      const isNamed = name !== undefined && this.#isSign('=', this.#next(1));
      if (isNamed) this.#at = this.#next(1) + 1;
      const value = this.#value();
      if (isNamed) named[name] = value;
      else if (!this.#isSign('=>')) items.push(value);
      // What follows a value there, such as a type or an operator, says nothing.
      while (this.#here() < this.#tokens.length && !this.#isSign(',') && !this.#isSign(end)) {
        const at = this.#here();
        this.#value();
        if (this.#here() === at) this.#at = at + 1;
      }
      if (this.#isSign(',')) this.#skip();
    }
    this.#skip();
    this.#inBrackets = before;
    return items;
  }

  #isBetween(): boolean {
    const token = this.#tokens[this.#here()];
    return token !== undefined && token.kind !== 'text' && token.kind !== 'line' && BETWEEN.has(token.text);
  }

  /** Where the next token is. A line that begins with a dot or a plus goes on. */
  #here(): number {
    let at = this.#at;
    while (this.#tokens[at]?.kind === 'line') at += 1;
    if (this.#inBrackets || at === this.#at) return at;
    return this.#isSign('.', at) || this.#isSign('?.', at) || this.#isSign('+', at) ? at : this.#at;
  }

  #next(count: number): number {
    let at = this.#here() + count;
    while (this.#inBrackets && this.#tokens[at]?.kind === 'line') at += 1;
    return at;
  }

  #skip(): true {
    this.#at = this.#here() + 1;
    return true;
  }

  #word(): string {
    const word = this.#wordAt(this.#here()) ?? '';
    this.#skip();
    return word;
  }

  #wordAt(at: number): string | undefined {
    const token = this.#tokens[at];
    return token?.kind === 'word' ? token.text : undefined;
  }

  #isSign(text: string, at = this.#here()): boolean {
    const token = this.#tokens[at];
    return token?.kind === 'sign' && token.text === text;
  }
}

const OPENING_OF: ReadonlySet<string> = new Set([')', ']', '}', ',']);

/** A text with values put into its places. */
function formatted(text: CodeNode, given: readonly CodeNode[], place: string): CodeNode[] {
  const pieces = text.kind === 'text' ? text.text.split(place) : [];
  return pieces.flatMap((piece, index): CodeNode[] => [
    ...(index === 0 ? [] : [given[index - 1] ?? { kind: 'other' as const }]),
    ...(piece === '' ? [] : [{ kind: 'text' as const, text: piece }]),
  ]);
}
