import { describe, expect, it } from 'vitest';
import { hostEntriesOf, hostEntryTexts, limitsOf, originOf } from '../../../src/features/http-request/host-limits.ts';

const read = (given: unknown) => hostEntriesOf(hostEntryTexts.parse(given));

describe('the limits of hosts', () => {
  it.each([
    ['api.example.com=10/s', [{ host: 'api.example.com', perSecond: 10 }]],
    ['API.Example.com.=600/m:4', [{ host: 'api.example.com', perSecond: 10, atOnce: 4 }]],
    [
      '*=0.5/s , a:8443=:2',
      [
        { host: '*', perSecond: 0.5 },
        { host: 'a:8443', atOnce: 2 },
      ],
    ],
    ['https://a.example.com:443=7200/h', [{ host: 'https://a.example.com', perSecond: 2 }]],
    ['[::1]:8080=1/s,[0:0:0:0:0:0:0:2]=unlimited', [{ host: '[::1]:8080', perSecond: 1 }, { host: '[::2]' }]],
    ['0x7f.1=1/s', [{ host: '127.0.0.1', perSecond: 1 }]],
    ['', []],
    [['a=1/s'], [{ host: 'a', perSecond: 1 }]],
  ])('%j are read', (given, entries) => {
    expect(read(given)).toEqual(entries);
  });

  it.each([
    ['api.example.com', 'expected one = between host and limit'],
    ['a=10', '"10" is not a limit'],
    ['a=10/sec', '"10/sec" is not a limit'],
    ['a=-1/s', '"-1/s" is not a limit'],
    ['a=0/s', 'the rate must be from 0.00001/s to 100000/s'],
    ['a=0.03/h', 'the rate must be from 0.00001/s'],
    ['a=1e9/s', '"1e9/s" is not a limit'],
    ['a=200000/s', 'to 100000/s'],
    ['a=1/s:0', 'must be from 1'],
    ['a=', 'expected one ='],
    ['a=:', '":" is not a limit'],
    ['=1/s', 'expected one ='],
    ['*.example.com=1/s', '"*.example.com" is not a host'],
    ['a/path=1/s', 'is not a host'],
    ['ftp://a=1/s', 'is not a host'],
    ['a:0=1/s', 'is not a host'],
    ['a:70000=1/s', 'is not a host'],
    ['user@a=1/s', 'is not a host'],
    ['a=1/s,A.=2/s', 'the entry "A.=2/s": the host is named twice'],
    ['https://a=1/s,https://a:443=2/s', 'the host is named twice'],
    ['a=1/s,,b=1/s', 'the entry "": expected one ='],
  ])('%j is refused, and the error names the entry', (given, message) => {
    expect(
      hostEntryTexts
        .safeParse(given)
        .error?.issues.map((issue) => issue.message)
        .join(),
    ).toContain(message);
  });

  it.each([
    ['https://api.example.com/a?b', 'https://api.example.com'],
    ['HTTPS://API.EXAMPLE.COM.:443/', 'https://api.example.com'],
    ['http://api.example.com:80', 'http://api.example.com'],
    ['http://api.example.com:443', 'http://api.example.com:443'],
    ['http://[0:0::0:1]:80/', 'http://[::1]'],
    ['http://[::ffff:127.0.0.1]:8080', 'http://127.0.0.1:8080'],
    ['http://2130706433/', 'http://127.0.0.1'],
    ['https://bücher.example', 'https://xn--bcher-kva.example'],
  ])('%s leads to %s', (url, origin) => {
    expect(originOf(new URL(url))).toBe(origin);
  });

  it('are those of the entry that names a host most exactly', () => {
    const entries = read('*=1/s,a=2/s,a:443=3/s,http://a:443=4/s,b=unlimited');
    const perSecond = (url: string) => limitsOf(entries, originOf(new URL(url))).perSecond;
    expect(perSecond('https://c')).toBe(1);
    expect(perSecond('http://a')).toBe(2);
    expect(perSecond('https://a')).toBe(3);
    expect(perSecond('http://a:443')).toBe(4);
    expect(perSecond('https://b')).toBeUndefined();
  });
});
