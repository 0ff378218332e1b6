//! The functions that expressions may call, and their types.

use std::{collections::HashMap, sync::LazyLock};

use crate::{
    types::{Solution, Type},
    value::Val,
};

/// One way to call a function.
#[derive(Debug)]
pub(crate) struct Overload {
    /// Whether the first argument stands before a dot.
    pub(crate) member: bool,
    args: Vec<&'static str>,
    result: &'static str,
    /// The types that arguments must have when the call is evaluated.
    runtime: Vec<Runtime>,
}

/// A type as values show it: parameters are gone, and a list shows its first element only.
#[derive(Debug, PartialEq)]
enum Runtime {
    Any,
    Named(&'static str),
    List(Box<Runtime>),
    Map(Box<(Runtime, Runtime)>),
}

impl Runtime {
    fn of(ty: &Type) -> Self {
        match ty {
            Type::List(element) => Self::List(Self::of(element).into()),
            Type::Map(entry) => Self::Map((Self::of(&entry.0), Self::of(&entry.1)).into()),
            Type::Dyn | Type::Param(_) | Type::Error => Self::Any,
            other => Self::Named(other.name()),
        }
    }

    fn accepts(&self, value: Val<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::Named(name) => value.type_name() == *name,
            Self::List(element) => {
                value.is_list() && value.item(0).is_none_or(|first| element.accepts(first))
            }
            Self::Map(entry) => {
                let accepts = |(key, value)| entry.0.accepts(key) && entry.1.accepts(value);
                value.is_map() && value.entry(0).is_none_or(accepts)
            }
        }
    }
}

/// Which values a call takes. The types that the checker knows are not enough: values of `dyn` show
/// theirs only when they are there.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Guard {
    /// The function looks for itself.
    None,
    /// The one overload that the checker found.
    One(&'static Overload),
    /// Any overload of the function, called on a target or not.
    Any(&'static [Overload]),
}

impl Guard {
    /// The guard of calls of `function`; `overload` is the only one that fits, if the checker found
    /// only one.
    pub(crate) fn of(function: &str, overload: Option<&'static Overload>) -> Self {
        let operator = function.starts_with(['_', '!', '-', '@']);
        match (function, overload) {
            ("contains" | "endsWith" | "startsWith" | "matches", _) => Self::None,
            ("size" | "type" | "dyn" | "sort" | "flatten", _) => Self::None,
            _ if operator => Self::None,
            (_, Some(overload)) => Self::One(overload),
            (function, None) => Self::Any(overloads(function).unwrap_or_default()),
        }
    }

    pub(crate) fn accepts(self, args: &[Val<'_>]) -> bool {
        match self {
            Self::None => true,
            Self::One(overload) => overload.accepts(args),
            Self::Any(overloads) => overloads.iter().any(|overload| overload.accepts(args)),
        }
    }
}

impl Overload {
    /// The type of an argument, as the table below writes it.
    pub(crate) fn arg(&self, index: usize) -> Option<&'static str> {
        self.args.get(index).copied()
    }

    /// Whether the last argument is a list.
    pub(crate) fn takes_list(&self) -> bool {
        self.args.last().is_some_and(|last| last.starts_with("L<"))
    }

    /// Whether values of these types may be its arguments.
    fn accepts(&self, args: &[Val<'_>]) -> bool {
        self.runtime.len() == args.len()
            && self.runtime.iter().zip(args).all(|(wanted, arg)| wanted.accepts(*arg))
    }

    /// Argument types and result with parameters of their own.
    pub(crate) fn instance(&self, solution: &mut Solution) -> (Vec<Type>, Type) {
        let mut params = HashMap::new();
        let args = self.args.iter().map(|text| read(text, &mut params, solution)).collect();
        (args, read(self.result, &mut params, solution))
    }
}

/// A type as the table below writes it: `L<A>`, `M<A,B>`, `O<A>`, `T<A>`, a parameter, a name.
pub(crate) fn read(
    text: &'static str,
    params: &mut HashMap<&'static str, Type>,
    solution: &mut Solution,
) -> Type {
    let inner = text.get(2..text.len().saturating_sub(1)).unwrap_or_default();
    match text.get(..2) {
        Some("L<") => return Type::list(read(inner, params, solution)),
        Some("O<") => return Type::optional(read(inner, params, solution)),
        Some("T<") => return Type::Type(read(inner, params, solution).into()),
        Some("M<") => {
            let (key, value) = inner.split_once(';').unwrap_or((inner, "dyn"));
            let key = read(key, params, solution);
            return Type::map(key, read(value, params, solution));
        }
        _ => {}
    }
    match text {
        "dyn" => Type::Dyn,
        "A" | "B" => params.entry(text).or_insert_with(|| solution.fresh()).clone(),
        "Quantity" => Type::Plain("kubernetes.Quantity"),
        "Semver" => Type::Plain("kubernetes.Semver"),
        "URL" => Type::Plain("kubernetes.URL"),
        "IP" => Type::Plain("net.IP"),
        "CIDR" => Type::Plain("net.CIDR"),
        "Authorizer" => Type::Plain("kubernetes.authorization.Authorizer"),
        "PathCheck" => Type::Plain("kubernetes.authorization.PathCheck"),
        "GroupCheck" => Type::Plain("kubernetes.authorization.GroupCheck"),
        "ResourceCheck" => Type::Plain("kubernetes.authorization.ResourceCheck"),
        "Decision" => Type::Plain("kubernetes.authorization.Decision"),
        "Format" => Type::Plain("kubernetes.NamedFormat"),
        name => Type::Plain(name),
    }
}

/// One way to call a function or operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Its name; operators are called `_+_`, `!_`, `_[_]`.
    pub name: &'static str,
    /// Whether the first argument stands before a dot.
    pub member: bool,
    /// The types of its arguments, the one before the dot first.
    pub args: Vec<Type>,
    /// The type of its result.
    pub result: Type,
}

/// Every function and operator with all its signatures, sorted by name.
pub fn signatures() -> Vec<Signature> {
    let mut all: Vec<Signature> = Vec::new();
    for line in FUNCTIONS.lines() {
        let Some((name, _)) = line.split_once(' ') else { continue };
        all.extend(overloads(name).unwrap_or_default().iter().map(|overload| {
            let mut solution = Solution::default();
            let (args, result) = overload.instance(&mut solution);
            let result = solution.resolve(&result, true);
            let args = args.iter().map(|arg| solution.resolve(arg, true)).collect();
            Signature { name, member: overload.member, args, result }
        }));
    }
    all.sort_by(|a, b| a.name.cmp(b.name));
    all
}

pub(crate) fn overloads(name: &str) -> Option<&'static [Overload]> {
    TABLE.get(name).map(Vec::as_slice)
}

static TABLE: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut table: HashMap<&'static str, Vec<Overload>> = HashMap::new();
    for line in FUNCTIONS.lines() {
        let Some((name, overloads)) = line.split_once(' ') else { continue };
        for overload in overloads.split(' ') {
            let Some((args, result)) = overload.split_once(")") else { continue };
            let Some((target, args)) = args.split_once('(') else { continue };
            let args = target.split(',').chain(args.split(',')).filter(|arg| !arg.is_empty());
            let member = !target.is_empty();
            let args: Vec<_> = args.collect();
            let (mut params, mut solution) = (HashMap::new(), Solution::default());
            let mut runtime =
                |text: &&'static str| Runtime::of(&read(text, &mut params, &mut solution));
            let runtime = args.iter().map(&mut runtime).collect();
            let overload = Overload { member, args, result, runtime };
            table.entry(name).or_default().push(overload);
        }
    }
    table
});

/// One function a line: its name, then `target(arguments)result` for every overload.
const FUNCTIONS: &str = "\
_==_ (A,A)bool
_!=_ (A,A)bool
!_ (bool)bool
-_ (int)int (double)double
_&&_ (bool,bool)bool
_||_ (bool,bool)bool
_?_:_ (bool,A,A)A
@in (A,L<A>)bool (A,M<A;B>)bool
_<_ (bool,bool)bool (int,int)bool (int,double)bool (int,uint)bool (uint,uint)bool (uint,double)bool (uint,int)bool (double,double)bool (double,int)bool (double,uint)bool (string,string)bool (bytes,bytes)bool (timestamp,timestamp)bool (duration,duration)bool
_<=_ (bool,bool)bool (int,int)bool (int,double)bool (int,uint)bool (uint,uint)bool (uint,double)bool (uint,int)bool (double,double)bool (double,int)bool (double,uint)bool (string,string)bool (bytes,bytes)bool (timestamp,timestamp)bool (duration,duration)bool
_>_ (bool,bool)bool (int,int)bool (int,double)bool (int,uint)bool (uint,uint)bool (uint,double)bool (uint,int)bool (double,double)bool (double,int)bool (double,uint)bool (string,string)bool (bytes,bytes)bool (timestamp,timestamp)bool (duration,duration)bool
_>=_ (bool,bool)bool (int,int)bool (int,double)bool (int,uint)bool (uint,uint)bool (uint,double)bool (uint,int)bool (double,double)bool (double,int)bool (double,uint)bool (string,string)bool (bytes,bytes)bool (timestamp,timestamp)bool (duration,duration)bool
_+_ (int,int)int (uint,uint)uint (double,double)double (string,string)string (bytes,bytes)bytes (L<A>,L<A>)L<A> (timestamp,duration)timestamp (duration,timestamp)timestamp (duration,duration)duration
_-_ (int,int)int (uint,uint)uint (double,double)double (timestamp,duration)timestamp (timestamp,timestamp)duration (duration,duration)duration
_*_ (int,int)int (uint,uint)uint (double,double)double
_/_ (int,int)int (uint,uint)uint (double,double)double
_%_ (int,int)int (uint,uint)uint
_[_] (L<A>,int)A (M<A;B>,A)B (O<L<A>>,int)O<A> (O<M<A;B>>,A)O<B>
_[?_] (L<A>,int)O<A> (M<A;B>,A)O<B> (O<L<A>>,int)O<A> (O<M<A;B>>,A)O<B>
size (string)int (bytes)int (L<A>)int (M<A;B>)int string()int bytes()int L<A>()int M<A;B>()int
contains string(string)bool
startsWith string(string)bool
endsWith string(string)bool
matches (string,string)bool string(string)bool
type (A)T<A>
dyn (A)dyn
int (int)int (uint)int (double)int (string)int (timestamp)int (duration)int
uint (uint)uint (int)uint (double)uint (string)uint
double (double)double (int)double (uint)double (string)double
string (string)string (bool)string (int)string (uint)string (double)string (bytes)string (timestamp)string (duration)string (IP)string (CIDR)string
bytes (bytes)bytes (string)bytes
bool (bool)bool (string)bool
timestamp (timestamp)timestamp (string)timestamp (int)timestamp
duration (duration)duration (string)duration
getFullYear timestamp()int timestamp(string)int
getMonth timestamp()int timestamp(string)int
getDayOfYear timestamp()int timestamp(string)int
getDayOfMonth timestamp()int timestamp(string)int
getDate timestamp()int timestamp(string)int
getDayOfWeek timestamp()int timestamp(string)int
getHours timestamp()int timestamp(string)int duration()int
getMinutes timestamp()int timestamp(string)int duration()int
getSeconds timestamp()int timestamp(string)int duration()int
getMilliseconds timestamp()int timestamp(string)int duration()int
optional.of (A)O<A>
optional.ofNonZeroValue (A)O<A>
optional.none ()O<A>
optional.unwrap (L<O<A>>)L<A>
unwrapOpt L<O<A>>()L<A>
value O<A>()A
hasValue O<A>()bool
or O<A>(O<A>)O<A>
orValue O<A>(A)A
charAt string(int)string
indexOf string(string)int string(string,int)int L<A>(A)int
lastIndexOf string(string)int string(string,int)int L<A>(A)int
lowerAscii string()string
upperAscii string()string
replace string(string,string)string string(string,string,int)string
split string(string)L<string> string(string,int)L<string>
substring string(int)string string(int,int)string
trim string()string
join L<string>()string L<string>(string)string
strings.quote (string)string
format string(L<dyn>)string
find string(string)string
jsonpatch.escapeKey (string)string
findAll string(string)L<string> string(string,int)L<string>
isSorted L<int>()bool L<uint>()bool L<double>()bool L<bool>()bool L<duration>()bool L<timestamp>()bool L<string>()bool L<bytes>()bool
sum L<int>()int L<uint>()uint L<double>()double L<duration>()duration
min L<int>()int L<uint>()uint L<double>()double L<bool>()bool L<duration>()duration L<timestamp>()timestamp L<string>()string L<bytes>()bytes
max L<int>()int L<uint>()uint L<double>()double L<bool>()bool L<duration>()duration L<timestamp>()timestamp L<string>()string L<bytes>()bytes
slice L<A>(int,int)L<A>
flatten L<L<A>>()L<A> L<dyn>(int)L<dyn>
sort L<int>()L<int> L<uint>()L<uint> L<double>()L<double> L<bool>()L<bool> L<duration>()L<duration> L<timestamp>()L<timestamp> L<string>()L<string> L<bytes>()L<bytes>
lists.range (int)L<int>
distinct L<A>()L<A>
@sortByAssociatedKeys L<A>(L<int>)L<A> L<A>(L<uint>)L<A> L<A>(L<double>)L<A> L<A>(L<bool>)L<A> L<A>(L<duration>)L<A> L<A>(L<timestamp>)L<A> L<A>(L<string>)L<A> L<A>(L<bytes>)L<A>
reverse L<A>()L<A>
cel.@mapInsert (M<A;B>,M<A;B>)M<A;B> (M<A;B>,A,B)M<A;B>
first L<A>()O<A>
last L<A>()O<A>
sets.contains (L<A>,L<A>)bool
sets.equivalent (L<A>,L<A>)bool
sets.intersects (L<A>,L<A>)bool
url (string)URL
isURL (string)bool
getScheme URL()string
getHost URL()string
getHostname URL()string
getPort URL()string
getEscapedPath URL()string
getQuery URL()M<string;L<string>>
ip (string)IP CIDR()IP
isIP (string)bool
ip.isCanonical (string)bool
family IP()int
isUnspecified IP()bool
isLoopback IP()bool
isLinkLocalMulticast IP()bool
isLinkLocalUnicast IP()bool
isGlobalUnicast IP()bool
cidr (string)CIDR
isCIDR (string)bool
containsIP CIDR(string)bool CIDR(IP)bool
containsCIDR CIDR(string)bool CIDR(CIDR)bool
masked CIDR()CIDR
prefixLength CIDR()int
quantity (string)Quantity
isQuantity (string)bool
isInteger Quantity()bool
asInteger Quantity()int
asApproximateFloat Quantity()double
sign (Quantity)int
isGreaterThan Quantity(Quantity)bool Semver(Semver)bool
isLessThan Quantity(Quantity)bool Semver(Semver)bool
compareTo Quantity(Quantity)int Semver(Semver)int
add Quantity(Quantity)Quantity Quantity(int)Quantity
sub Quantity(Quantity)Quantity Quantity(int)Quantity
semver (string)Semver (string,bool)Semver
isSemver (string)bool (string,bool)bool
major Semver()int
minor Semver()int
patch Semver()int
validate Format(string)O<L<string>>
format.named (string)O<Format>
format.dns1123Label ()Format
format.dns1123Subdomain ()Format
format.dns1035Label ()Format
format.qualifiedName ()Format
format.dns1123LabelPrefix ()Format
format.dns1123SubdomainPrefix ()Format
format.dns1035LabelPrefix ()Format
format.labelValue ()Format
format.uri ()Format
format.uuid ()Format
format.byte ()Format
format.date ()Format
format.datetime ()Format
path Authorizer(string)PathCheck
group Authorizer(string)GroupCheck
serviceAccount Authorizer(string,string)Authorizer
resource GroupCheck(string)ResourceCheck
subresource ResourceCheck(string)ResourceCheck
namespace ResourceCheck(string)ResourceCheck
name ResourceCheck(string)ResourceCheck
fieldSelector ResourceCheck(string)ResourceCheck
labelSelector ResourceCheck(string)ResourceCheck
check PathCheck(string)Decision ResourceCheck(string)Decision
allowed Decision()bool
reason Decision()string
errored Decision()bool
error Decision()string";
