import { isExactNumber, isJsonArray, type Json } from '../model/json.ts';
import {
  type CompiledExpression,
  compileExpression,
  ExpressionError,
  findClosingBrace,
  prepareContext,
  type Vars,
} from './compile.ts';
import type { ExpressionContext, Reader, Reference } from './context.ts';
import type { JsonPath } from './json-path.ts';

/** A JSON value whose strings can contain `${ expression }`. */
export interface CompiledTemplate {
  readonly roots: ReadonlySet<Reference['root']>;
  readonly references: readonly TemplateReference[];
  readonly expressions: readonly { readonly expression: CompiledExpression; readonly at: JsonPath }[];
  /** References to secrets that are a whole placeholder. */
  readonly secrets: readonly EmbeddedSecret[];
  /** No placeholder anywhere: it renders to the same value in every context. */
  readonly isConstant: boolean;
  /** Throws `ExpressionError`, with the path inside the value, for the first expression that fails. */
  render(context: ExpressionContext, secrets?: ReadonlyMap<string, string>): Json;
  /** Like `render`, for several templates that share a context. */
  renderIn(data: CelData): Json;
}

interface EmbeddedSecret {
  /** `env:NAME` or `file:PATH`. */
  readonly reference: string;
  readonly at: JsonPath;
}

/** A reference of a template's expression, and the place of that expression in the value. */
interface TemplateReference extends Reference {
  readonly at: JsonPath;
}

type CelData = ReturnType<typeof prepareContext> & { readonly secrets?: ReadonlyMap<string, string> | undefined };
type Render = (data: CelData) => Json;
/** Expressions cannot compute with a secret: the result could not be masked. */
type Part = string | CompiledExpression | Pick<EmbeddedSecret, 'reference'>;

const SECRET = /^\s*secret\(\s*(['"])((?:[eE][nN][vV]|[fF][iI][lL][eE]):[^'"\\{}]+)\1\s*\)\s*$/;

/** The text with a replacement for each `${secret('env:NAME')}`. */
export function replaceSecrets(text: string, replace: (reference: string) => string): string {
  return text.replace(/(\$?)\$\{([^{}]*)\}/g, (found, dollar, expression) => {
    const [, , reference] = SECRET.exec(expression) ?? [];
    return reference === undefined || dollar !== '' ? found : replace(reference);
  });
}

/** The references of each `${secret('env:NAME')}` in a text. */
export function secretsIn(text: string): string[] {
  const found: string[] = [];
  replaceSecrets(text, (reference) => String(found.push(reference)));
  return found;
}

/**
 * Compiles every placeholder in the strings of a value, but not in its keys.
 *
 * A string that consists of one placeholder yields the value with its type. Inside longer text, strings are inserted
 * unchanged, null is empty and everything else is JSON. `$${` is a literal `${`. Throws `TemplateError` with every
 * expression that does not compile.
 */
export function compileTemplate(value: Json, reads: Reader = 'step', vars?: Vars): CompiledTemplate {
  const references: TemplateReference[] = [];
  const expressions: { expression: CompiledExpression; at: JsonPath }[] = [];
  const secrets: EmbeddedSecret[] = [];
  const errors: ExpressionError[] = [];
  let isConstant = true;

  const compileText = (text: string, at: JsonPath): Render => {
    const parts = splitText(text, at, { errors, reads, vars });
    for (const part of parts) {
      if (typeof part === 'string') continue;
      isConstant = false;
      if ('reference' in part) {
        secrets.push({ ...part, at });
        continue;
      }
      expressions.push({ expression: part, at });
      references.push(...part.references.map((reference) => ({ ...reference, at })));
    }
    return renderParts(parts, at);
  };
  const compileValue = (inner: Json, at: JsonPath): Render => {
    if (typeof inner === 'string') return compileText(inner, at);
    if (typeof inner !== 'object' || inner === null || isExactNumber(inner)) return () => inner;
    if (isJsonArray(inner)) {
      const items = inner.map((item, index) => compileValue(item, [...at, index]));
      return (data) => items.map((render) => render(data));
    }
    const entries = Object.entries(inner).map(([key, item]) => [key, compileValue(item, [...at, key])] as const);
    return (data) => Object.fromEntries(entries.map(([key, render]) => [key, render(data)]));
  };

  const render = compileValue(value, []);
  if (errors.length > 0) throw new TemplateError(errors);
  return {
    roots: new Set(references.map((reference) => reference.root)),
    references,
    expressions,
    secrets,
    isConstant,
    render: (context, values) => render({ ...prepareContext(context), secrets: values }),
    renderIn: render,
  };
}

/** All expressions of a template that do not compile. */
export class TemplateError extends Error {
  readonly errors: readonly ExpressionError[];

  constructor(errors: readonly ExpressionError[]) {
    super(errors.map((error) => error.message).join('; '));
    this.name = 'TemplateError';
    this.errors = errors;
  }
}

/** Whether a string contains a placeholder, not counting escaped ones. */
export function hasPlaceholder(text: string): boolean {
  return text.replaceAll('$${', ' ').includes('${');
}

interface Splitting {
  readonly errors: ExpressionError[];
  readonly reads: Reader;
  readonly vars: Vars | undefined;
}

function splitText(text: string, at: JsonPath, splitting: Splitting): Part[] {
  const parts: Part[] = [];
  let literal = '';
  for (let index = 0; index < text.length; ) {
    if (text.startsWith('$${', index)) {
      literal += '${';
      index += 3;
    } else if (text.startsWith('${', index)) {
      const end = findClosingBrace(text, index + 2);
      const expression = text.slice(index + 2, end);
      if (literal !== '') parts.push(literal);
      literal = '';
      const compiled = end === undefined ? unclosed(expression, at) : compilePart(expression, at, splitting);
      if (compiled instanceof ExpressionError) splitting.errors.push(compiled);
      else parts.push(compiled);
      index = end === undefined ? text.length : end + 1;
    } else {
      literal += text[index];
      index += 1;
    }
  }
  if (literal !== '') parts.push(literal);
  return parts;
}

function unclosed(expression: string, path: JsonPath): ExpressionError {
  return new ExpressionError({ expression, reason: 'the placeholder is not closed with }', path });
}

function compilePart(
  expression: string,
  at: JsonPath,
  { reads, vars }: Splitting,
): Exclude<Part, string> | ExpressionError {
  const [, , reference] = SECRET.exec(expression) ?? [];
  if (reference !== undefined && reads === 'step') return { reference };
  try {
    return compileExpression(expression, reads, vars);
  } catch (error) {
    if (error instanceof ExpressionError) return error.at(at);
    throw error;
  }
}

function renderParts(parts: readonly Part[], at: JsonPath): Render {
  const [first, ...others] = parts;
  if (first === undefined) return () => '';
  if (others.length > 0) return (data) => parts.map((part) => renderText(part, data, at)).join('');
  if (typeof first === 'string' || 'reference' in first) return (data) => renderText(first, data, at);
  return (data) => located(() => first.evaluateIn(data), at);
}

function renderText(part: Part, data: CelData, at: JsonPath): string {
  if (typeof part === 'string') return part;
  if (!('reference' in part)) return located(() => part.textIn(data), at);
  const value = data.secrets?.get(part.reference);
  if (value === undefined) throw new ExpressionError({ expression: 'secret()', reason: 'was not read', path: at });
  return value;
}

function located<Result>(work: () => Result, at: JsonPath): Result {
  try {
    return work();
  } catch (error) {
    throw error instanceof ExpressionError ? error.at(at) : error;
  }
}
