/** What each kind of extension is told by, and what code it has to bring. */
const KINDS = {
  handlers: { name: 'type', code: 'run', example: "handlers: [defineHandler({ type: 'Greet', … })]" },
  verifiers: { name: 'name', code: 'verify', example: "verifiers: [{ name: 'Acme', verify: … }]" },
  signatureSpecs: { name: 'name', code: undefined, example: "signatureSpecs: [{ name: 'Acme', headerName: … }]" },
  gates: { name: 'name', code: 'prepare', example: "gates: [{ name: 'tenant', prepare: … }]" },
} as const;

/** One line for each extension that is not what its kind needs: a config module may be plain JavaScript. */
export function extensionMistakes(extensions: Readonly<Record<string, unknown>>): string[] {
  const lists = Object.entries(KINDS).flatMap(([kind, { name, code, example }]) => {
    const list = extensions[kind];
    if (list === undefined) return [];
    if (!Array.isArray(list)) return [`${kind} is no array; expected ${example}`];
    return list.flatMap((item: unknown, at) => {
      const place = `${kind}[${at}]`;
      if (!isRecord(item)) return [`${place} is no object; expected ${example}`];
      if (typeof item[name] !== 'string' || item[name].trim() === '') return [`${place}.${name} is no text`];
      if (code !== undefined && typeof item[code] !== 'function') return [`${place}.${code} is no function`];
      return kind === 'handlers' ? handlerMistakes(item, place) : [];
    });
  });
  return [...lists, ...strategyMistakes(extensions.payloadStrategies)];
}

function handlerMistakes({ inputs, secretInputs }: Record<string, unknown>, place: string): string[] {
  if (!isRecord(inputs) || typeof inputs.safeParse !== 'function') return [`${place}.inputs is no zod schema`];
  return Array.isArray(secretInputs) ? [] : [`${place}.secretInputs is no array; defineHandler fills it in`];
}

function strategyMistakes(strategies: unknown): string[] {
  if (strategies === undefined) return [];
  const example = 'expected payloadStrategies: { name: ({ delivery }) => bytes }';
  if (!isRecord(strategies) || Array.isArray(strategies)) return [`payloadStrategies is no object; ${example}`];
  return Object.entries(strategies).flatMap(([name, builder]) =>
    typeof builder === 'function' ? [] : [`payloadStrategies.${name} is no function; ${example}`],
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
