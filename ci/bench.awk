# From the tables of many launches to ratios. Any awk will do.
#
# Input files are named COLLECTIVE-PAIR-WHO.txt, WHO being "ours" or a peer's name; the first field of a row is the
# size. Rows of nccl-tests' table have out-of-place and in-place in their last eight fields, those of OSU have
# "size time", those of IMB "size repetitions min max mean".
#
# An interval is that of the mean of the pairs' logarithms (95 %, Student's t): pairs are independent, sizes of one
# launch are not.

function student(dof) {
  return dof > 30 ? 2.04 : T[dof]
}

function note(key, value) {
  if (!(key in n)) { n[key] = 0; sum[key] = 0; squares[key] = 0 }
  n[key]++
  sum[key] += value
  squares[key] += value * value
  values[key, n[key]] = value
}

function mean(key) { return n[key] ? sum[key] / n[key] : 0 }

function half(key,   m, v) {
  if (n[key] < 2) return 0
  m = mean(key)
  v = (squares[key] - n[key] * m * m) / (n[key] - 1)
  return student(n[key] - 1) * sqrt((v > 0 ? v : 0) / n[key])
}

function median(key,   i, j, held, all) {
  for (i = 1; i <= n[key]; i++) all[i] = values[key, i]
  for (i = 2; i <= n[key]; i++) {
    held = all[i]
    for (j = i - 1; j > 0 && all[j] > held; j--) all[j + 1] = all[j]
    all[j + 1] = held
  }
  i = int((n[key] + 1) / 2)
  return n[key] % 2 ? all[i] : (all[i] + all[i + 1]) / 2
}

# An interval needs two pairs.
function interval(key) {
  return n[key] < 2 ? "[-, -]" : sprintf("[%.4f, %.4f]", exp(mean(key) - half(key)), exp(mean(key) + half(key)))
}

function keep(where, us,   at) {
  if (us + 0 <= 0) return
  at = $1 SUBSEP where
  if (!((collective, at) in seen)) {
    seen[collective, at] = 1
    places[collective, ++count[collective]] = at
  }
  time[collective, at, pair, who] = us
  note("time" SUBSEP collective SUBSEP at SUBSEP who, log(us))
}

BEGIN {
  split("12.706 4.303 3.182 2.776 2.571 2.447 2.365 2.306 2.262 2.228 2.201 2.179 2.160 2.145 2.131 2.120 2.110 2.101 " \
        "2.093 2.086 2.080 2.074 2.069 2.064 2.060 2.056 2.052 2.048 2.045 2.042", T, " ")
}

FNR == 1 {
  name = FILENAME
  sub(/.*\//, "", name)
  sub(/\.txt$/, "", name)
  split(name, part, "-")
  collective = part[1]; pair = part[2]; who = part[3]
  if (!(collective in known)) { known[collective] = 1; collectives[++all] = collective }
  if (!(who in tool)) { tool[who] = 1; if (who != "ours") peers[++others] = who }
  if (pair + 0 > last) last = pair + 0
}

/^#/ || $1 !~ /^[0-9]+$/ { next }
who == "osu" && NF == 2 { keep("call", $2); next }
who == "imb" && NF == 5 { keep("call", $5); next }
who != "osu" && who != "imb" && NF >= 12 {
  if (host) { keep("call", $(NF - 7)); next }
  keep("out", $(NF - 7))
  keep("in", $(NF - 3))
}

# Every pair, as it is read.
function pairs(collective, peer,   i, at, part, p, o, t, ratio) {
  for (i = 1; i <= count[collective]; i++) {
    at = places[collective, i]
    split(at, part, SUBSEP)
    for (p = 1; p <= last; p++) {
      o = time[collective, at, p, "ours"]
      t = time[collective, at, p, peer]
      if (o == "" && t == "") continue
      if (o == "" || t == "") {
        printf "MISSING %s %s %s pair %d: ours %s %s %s\n", collective, part[1], part[2], p, o, peer, t
        missing++
        continue
      }
      ratio = log(o / t)
      printf "PAIR %-14s %11s %-4s %3d %10.2f %10.2f %8.4f\n", collective, part[1], part[2], p, o, t, exp(ratio)
      note("pair" SUBSEP peer SUBSEP collective SUBSEP part[1] SUBSEP p, ratio)
      note("run" SUBSEP peer SUBSEP collective SUBSEP p, ratio)
      note("all" SUBSEP peer SUBSEP p, ratio)
      if (part[1] + 0 < 1048576) note("small" SUBSEP peer SUBSEP p, ratio)
    }
  }
}

# Moves each pair's mean under one key.
function gather(from, to,   p) {
  for (p = 1; p <= last; p++) if ((from SUBSEP p) in n) note(to, mean(from SUBSEP p))
}

function row(what, size, key, ours, theirs) {
  if (!n[key]) return
  printf "%-14s %11s %10s %10s %8.4f %8.4f %-18s %d\n", what, size, ours, theirs, exp(median(key)), exp(mean(key)), interval(key), n[key]
}

# Geometric mean of one tool's times at one size, over both placements.
function typical(collective, size, who,   sum, count, i, where, key) {
  split("out in call", where, " ")
  for (i = 1; i <= 3; i++) {
    key = "time" SUBSEP collective SUBSEP size SUBSEP where[i] SUBSEP who
    if (key in n) { sum += mean(key); count++ }
  }
  return count ? sprintf("%.2f", exp(sum / count)) : "-"
}

function table(peer,   c, i, part, name, size, done, key) {
  printf "\n%-14s %11s %10s %10s %8s %8s %-18s %s\n", "collective", "size", "ours_us", peer "_us", "median", "geomean", "95%", "pairs"
  for (c = 1; c <= all; c++) {
    name = collectives[c]
    for (i = 1; i <= count[name]; i++) {
      split(places[name, i], part, SUBSEP)
      size = part[1]
      if ((name, size) in done) continue
      done[name, size] = 1
      key = "size" SUBSEP peer SUBSEP name SUBSEP size
      gather("pair" SUBSEP peer SUBSEP name SUBSEP size, key)
      row(name, size, key, typical(name, size, "ours"), typical(name, size, peer))
    }
  }
  for (c = 1; c <= all; c++) {
    key = "whole" SUBSEP peer SUBSEP collectives[c]
    gather("run" SUBSEP peer SUBSEP collectives[c], key)
    row(collectives[c], "all", key, "", "")
  }
  gather("small" SUBSEP peer, "below" SUBSEP peer)
  row("all", "below 1 MiB", "below" SUBSEP peer, "", "")
  gather("all" SUBSEP peer, "total" SUBSEP peer)
  row("all", "all", "total" SUBSEP peer, "", "")
}

# What one tool varies by between its own launches.
function spread(   c, i, at, part, who, key) {
  printf "\n%-14s %11s %-4s %-6s %10s %10s %10s %8s %s\n", "collective", "size", "", "tool", "median_us", "min_us", "max_us", "sd%", "launches"
  for (c = 1; c <= all; c++) for (i = 1; i <= count[collectives[c]]; i++) {
    at = places[collectives[c], i]
    split(at, part, SUBSEP)
    for (who in tool) {
      key = "time" SUBSEP collectives[c] SUBSEP at SUBSEP who
      if (!(key in n)) continue
      printf "%-14s %11s %-4s %-6s %10.2f %10.2f %10.2f %8.1f %d\n", collectives[c], part[1], part[2], who, exp(median(key)), least(key), most(key), 100 * deviation(key), n[key]
    }
  }
}

function least(key,   i, v) { v = values[key, 1]; for (i = 2; i <= n[key]; i++) if (values[key, i] < v) v = values[key, i]; return exp(v) }
function most(key,   i, v) { v = values[key, 1]; for (i = 2; i <= n[key]; i++) if (values[key, i] > v) v = values[key, i]; return exp(v) }
function deviation(key,   m, v) {
  if (n[key] < 2) return 0
  m = mean(key)
  v = (squares[key] - n[key] * m * m) / (n[key] - 1)
  return sqrt(v > 0 ? v : 0)
}

END {
  print "#    collective            size place pair   ours_us  theirs_us    ratio"
  for (p = 1; p <= others; p++) for (c = 1; c <= all; c++) pairs(collectives[c], peers[p])
  if (host || !others) spread()
  for (p = 1; p <= others; p++) table(peers[p])
  if (missing) { printf "\n%d pairs are incomplete\n", missing; exit 1 }
}
